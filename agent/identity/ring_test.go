package identity_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grapevine/agent/identity"
)

// Every voter makes the same keys, an edge makes none, and the phases lead from one key to the next.
func TestRingOfKeys(t *testing.T) {
	one := found(t, 1)
	two, edge := provisioned(t, one, 2, identity.Voter), provisioned(t, one, 3, identity.Edge)
	first := one.Ring()
	if first.Generation != 0 || first.Phase != identity.RingDone || !first.Names(identity.GossipKeyID(one.GossipKeys()[0])) {
		t.Fatalf("at first: %+v", first)
	}
	add, err := one.Authority().Rotate(first)
	if err != nil {
		t.Fatal(err)
	}
	use, done := add.Advance(), add.Advance().Advance()
	for what, r := range map[string]identity.Ring{"add": add, "use": use, "done": done} {
		a, missing, err := one.RingKeys(r, nil)
		b, _, err2 := two.RingKeys(r, nil)
		if err != nil || err2 != nil || len(missing) > 0 || len(a) != len(r.Keys) || !bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) {
			t.Errorf("%s: %x and %x, missing %q, %v, %v", what, a, b, missing, err, err2)
		}
		for i, key := range a {
			if identity.GossipKeyID(key) != r.Keys[i].ID {
				t.Errorf("%s: key %d is another one", what, i)
			}
		}
		next := done.Keys[0].ID
		if _, missing, err := edge.RingKeys(r, nil); err != nil || len(missing) != 1 || missing[0] != next {
			t.Errorf("%s: an edge lacks %q, want %s: %v", what, missing, next, err)
		}
		if got, missing, err := edge.RingKeys(r, a); err != nil || len(missing) != 0 || !bytes.Equal(got[0], a[0]) {
			t.Errorf("%s: an edge that was given the keys lacks %q: %v", what, missing, err)
		}
	}
	if add.Keys[0].ID != first.Keys[0].ID || use.Keys[0].ID != done.Keys[0].ID || use.Keys[1].ID != first.Keys[0].ID {
		t.Errorf("%+v, %+v, %+v", add, use, done)
	}
	if first.Compare(add) >= 0 || add.Compare(use) >= 0 || use.Compare(done) >= 0 || done.Compare(done) != 0 {
		t.Error("the phases have another order")
	}
	again, err := one.Authority().Rotate(use)
	if err != nil || !again.Again || again.Generation != 1 || again.Compare(use) != 0 {
		t.Errorf("in the midst of it: %+v, %v", again, err)
	}
	third, err := one.Authority().Rotate(again.Advance())
	if err != nil || third.Again || third.Generation != 2 || third.Keys[0].ID != done.Keys[0].ID {
		t.Errorf("after it: %+v, %v", third, err)
	}
}

func TestRingIsSigned(t *testing.T) {
	one, other := found(t, 1), found(t, 1)
	ring, err := one.Authority().Rotate(one.Ring())
	if err != nil {
		t.Fatal(err)
	}
	value, err := one.Authority().EncodeRing(ring)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := one.Cluster().DecodeRing(value); err != nil || got.Compare(ring) != 0 || len(got.Keys) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := other.Cluster().DecodeRing(value); err == nil {
		t.Error("another cluster takes it")
	}
	for _, key := range one.GossipKeys() {
		if bytes.Contains(value, key) {
			t.Error("it holds a key")
		}
	}
	changed := strings.Replace(string(value), `"generation":1`, `"generation":9`, 1)
	for what, value := range map[string]string{
		"changed": changed, "empty": "", "no JSON": "x", "null": "null", "two": string(value) + "{}", "unsigned": `{"ring":{"generation":1}}`,
	} {
		if _, err := one.Cluster().DecodeRing([]byte(value)); err == nil || !strings.Contains(err.Error(), identity.RingKey) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, ring := range map[string]identity.Ring{
		"no phase":      {Generation: 1, Keys: ring.Keys},
		"one key":       {Generation: 1, Phase: identity.RingAdd, Keys: ring.Keys[:1]},
		"two keys":      {Generation: 1, Phase: identity.RingDone, Keys: ring.Keys},
		"no generation": {Phase: identity.RingAdd, Keys: ring.Keys},
		"a short salt":  {Generation: 1, Phase: identity.RingDone, Keys: []identity.RingEntry{{ID: "a", Salt: "00"}}},
	} {
		value, err := one.Authority().EncodeRing(ring)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := one.Cluster().DecodeRing(value); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
	lying := ring
	lying.Keys = []identity.RingEntry{ring.Keys[0], {ID: "0123456789abcdef", Salt: ring.Keys[1].Salt}}
	if _, _, err := one.RingKeys(lying, nil); err == nil {
		t.Error("a key is taken that is not made of its salt")
	}
}

func FuzzRing(f *testing.F) {
	id := found(f, 1)
	ring, err := id.Authority().Rotate(id.Ring())
	if err != nil {
		f.Fatal(err)
	}
	value, err := id.Authority().EncodeRing(ring)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Add([]byte(`{"ring":{},"signature":""}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		if r, err := id.Cluster().DecodeRing(value); err == nil {
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		}
	})
}

// provisioned makes another node of a cluster.
func provisioned(t *testing.T, by *identity.Identity, n int, role identity.Role) *identity.Identity {
	t.Helper()
	data, err := by.Provision(nodeID(n), role)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "identity")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := identity.Open(identity.Options{Path: path, Node: nodeID(n)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}
