package api

import (
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// readable is a key as it is stored: ids are folded, and a key that can't be there is refused by name.
func readable(s string) (kv.Key, error) {
	if _, err := kv.ParseKey(s); err != nil {
		return "", err
	}
	canonical, err := spec.CanonicalKey(s)
	if err != nil {
		return "", fail(codeBadKey, "%v", err).about(s)
	}
	return kv.Key(canonical), nil
}

// writable is a key that an operator may write.
func writable(s string) (kv.Key, error) {
	key, err := readable(s)
	if err == nil && spec.Ephemeral(string(key)) {
		return "", fail(codeBadKey, "key %q: lives as long as the connection of who announces it, so announce it instead of writing it", s).about(s)
	}
	return key, err
}
