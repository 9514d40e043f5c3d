package spec_test

import (
	"errors"
	"testing"

	"grapevine/gateway/spec"
)

func TestCanonicalKey(t *testing.T) {
	for key, want := range map[string]string{
		"gateway/routes/Booking":            "gateway/routes/booking",
		"gateway/clusters/B.1_x-y":          "gateway/clusters/b.1_x-y",
		"gateway/maintenance":               "gateway/maintenance",
		"gateway/maintenance/Booking":       "gateway/maintenance/booking",
		"gateway/instances/Warehouse/Pod-1": "gateway/instances/warehouse/Pod-1",
		"gateway/tenants/ACME":              "gateway/tenants/acme",
		"gateway/config/timeouts":           "gateway/config/timeouts",
		"app/Greeting":                      "app/Greeting",
		"gateways/routes/X":                 "gateways/routes/X",
	} {
		if got, err := spec.CanonicalKey(key); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", key, got, err, want)
		}
	}
}

func TestCanonicalKeyRefusesWithAFault(t *testing.T) {
	_, err := spec.CanonicalKey("gateway/cluster/booking")
	want := `gateway/cluster/booking: unknown kind "cluster" (did you mean "clusters"?); there are routes, clusters, maintenance, instances, tenants, config`
	var fault spec.Fault
	if !errors.As(err, &fault) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestEphemeral(t *testing.T) {
	for key, want := range map[string]bool{
		"gateway/instances/warehouse/w1": true,
		"gateway/nodes/n1":               true,
		"gateway/health/c/d/n":           true,
		"gateway/routes/booking":         false,
		"gateway/config/timeouts":        false,
		"gateway/jwks/main":              false,
		"gateway/instances":              false,
		"instances/a/b":                  false,
		"app/x":                          false,
	} {
		if got := spec.Ephemeral(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}

func FuzzCanonicalKey(f *testing.F) {
	for _, seed := range []string{"gateway/routes/A", "gateway/config/x", "gateway//", "", "/", "_meta", "gateway/instances/a/b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		canonical, err := spec.CanonicalKey(key)
		if err != nil {
			if f := new(spec.Fault); !errors.As(err, f) || f.Key != key || f.Problem == "" {
				t.Errorf("%q: a fault without key or problem: %#v", key, err)
			}
			return
		}
		if again, err := spec.CanonicalKey(canonical); err != nil || again != canonical {
			t.Errorf("%q becomes %q, which becomes %q, %v", key, canonical, again, err)
		}
	})
}
