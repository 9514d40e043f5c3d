package api_test

import (
	"testing"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// The store and the shapes of values agree on which keys nodes own.
func TestEphemeralKeysAreTheSameEverywhere(t *testing.T) {
	for _, kind := range []string{"routes", "clusters", "maintenance", "instances", "tenants", "config", "policies", "certs", "secrets", "acme", "jwks", "nodes", "health", "breakers", "shares", "tunnels", "other"} {
		for _, key := range []string{"gateway/" + kind, "gateway/" + kind + "/a", "gateway/" + kind + "/a/b", "gateway/" + kind + "x/a", kind + "/a", "Gateway/" + kind + "/a"} {
			if got, want := kv.Ephemeral(kv.Key(key)), spec.Ephemeral(key); got != want {
				t.Errorf("%s: the store says %v, the shapes %v", key, got, want)
			}
		}
	}
}
