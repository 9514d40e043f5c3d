package kv

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files of the ephemeral plane")

func exampleChange() OwnerChange {
	return OwnerChange{
		Owner: "01hzy5", Incarnation: 3, From: 7, Seq: 12, Held: 12, After: 8, More: true,
		Ops: []OwnerOp{
			{Seq: 9, Key: "gateway/instances/shop/pod-1", Value: []byte(`{"path":"/shop/{**rest}"}`)},
			{Seq: 10, Key: "gateway/instances/shop/pod-2", Value: []byte{}, Deleted: true},
			{Seq: 11, Key: "gateway/nodes/01hzy5", Value: []byte("{}"), Draining: true},
		},
	}
}

func exampleVector() map[OwnerID]vectorEntry {
	return map[OwnerID]vectorEntry{"01hzy5": {mark: OwnerMark{3, 12}}, "01hzy4": {mark: OwnerMark{1, 1 << 40}, floor: true}}
}

// What goes over the wire stays what it is, and nothing that was garbled passes for it.
func TestOwnerGoldenFiles(t *testing.T) {
	for _, tt := range []struct {
		file   string
		bytes  []byte
		decode func([]byte) ([]byte, error)
	}{
		{"owner_change.hex", AppendOwnerChange(nil, exampleChange()), func(b []byte) ([]byte, error) {
			c, err := DecodeOwnerChange(b)
			return AppendOwnerChange(nil, c), err
		}},
		{"owner_vector.hex", encodeVector(exampleVector()), func(b []byte) ([]byte, error) {
			v, err := decodeVector(b)
			return encodeVector(v), err
		}},
	} {
		path := filepath.Join("testdata", tt.file)
		if *update {
			if err := os.WriteFile(path, []byte(hex.EncodeToString(tt.bytes)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(tt.bytes); got != strings.TrimSpace(string(golden)) {
			t.Errorf("%s: it is\n%s\nand was\n%s", tt.file, got, golden)
		}
		if again, err := tt.decode(tt.bytes); err != nil || !bytes.Equal(again, tt.bytes) {
			t.Errorf("%s: decoded and encoded again it is %x: %v", tt.file, again, err)
		}
		for i := range tt.bytes {
			if _, err := tt.decode(tt.bytes[:i]); err == nil {
				t.Errorf("%s: cut to %d bytes it was taken", tt.file, i)
			}
		}
		if _, err := tt.decode(append(bytes.Clone(tt.bytes), 0)); err == nil {
			t.Errorf("%s: with a byte more it was taken", tt.file)
		}
	}
	got, err := DecodeOwnerChange(AppendOwnerChange(nil, exampleChange()))
	if diff := cmp.Diff(exampleChange(), got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// What comes in is taken, or refused as a whole, and never lets a store say what it did
// not before.
func FuzzDecodeOwnerChange(f *testing.F) {
	f.Add(AppendOwnerChange(nil, exampleChange()))
	f.Add(AppendOwnerChange(nil, OwnerChange{Owner: "a", Incarnation: 1}))
	f.Add(AppendOwnerChange(nil, OwnerChange{Owner: "a", Incarnation: 1, Seq: 2, Ops: []OwnerOp{{Seq: 2, Key: "gateway/nodes/a", Value: []byte{1}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := memoryStore(t)
		c, err := DecodeOwnerChange(b)
		if err == nil && !bytes.Equal(AppendOwnerChange(nil, c), b) {
			t.Errorf("%x became %x", b, AppendOwnerChange(nil, c))
		}
		for range 2 {
			_, _, applied := s.ApplyOwned([][]byte{b})
			if (err == nil) != (applied == nil) {
				t.Errorf("decoding says %v, applying %v", err, applied)
			}
		}
		for _, o := range s.Owners() {
			if o.Mark != (OwnerMark{}) && o.Mark != c.mark() {
				t.Errorf("%+v after %+v", o, c)
			}
		}
		if _, err := decodeVector(s.OwnerVector()); err != nil {
			t.Error(err)
		}
	})
}

func FuzzDecodeVector(f *testing.F) {
	f.Add(encodeVector(exampleVector()))
	f.Add(encodeVector(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, own := ownerStore(t, "a")
		announce(t, own, "gateway/nodes/a", "{}")
		v, err := decodeVector(b)
		if err == nil && !bytes.Equal(encodeVector(v), b) {
			t.Errorf("%x became %x", b, encodeVector(v))
		}
		changes, _, asked := s.OwnerDelta(b)
		if (err == nil) != (asked == nil) {
			t.Errorf("decoding says %v, the store %v", err, asked)
		}
		if asked == nil {
			for change := range changes {
				if _, err := DecodeOwnerChange(change); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// A change that is too large for one piece comes in parts, which have an effect together
// or none, and a part that is lost is noticed.
func TestOwnerChangesInParts(t *testing.T) {
	s, own := ownerStore(t, "a")
	for i := range 600 {
		announce(t, own, Key("gateway/instances/r/"+strings.Repeat("i", 1+i%50)+string(rune('a'+i/50))), strings.Repeat("x", MaxOwnedValueBytes))
	}
	other := memoryStore(t)
	other.SetOwner("a", OwnerActive)
	var parts [][]byte
	changes, behind, err := s.OwnerDelta(other.OwnerVector())
	if err != nil || behind {
		t.Fatalf("behind %v: %v", behind, err)
	}
	for change := range changes {
		if len(change) > 1<<20 {
			t.Errorf("a part has %d bytes", len(change))
		}
		parts = append(parts, change)
	}
	if len(parts) < 4 {
		t.Fatalf("%d parts", len(parts))
	}
	// Without the second part nothing happens, and it is noticed.
	_, gap, err := other.ApplyOwned([][]byte{parts[0], parts[2], parts[3]})
	if err != nil || !gap || len(shown(other)) > 0 {
		t.Errorf("without a part: gap %v, %d keys: %v", gap, len(shown(other)), err)
	}
	for i, part := range parts {
		_, gap, err := other.ApplyOwned([][]byte{part})
		if all := i == len(parts)-1; err != nil || gap || (len(shown(other)) == 600) != all || !all && len(shown(other)) != 0 {
			t.Fatalf("after part %d of %d there are %d keys, gap %v: %v", i+1, len(parts), len(shown(other)), gap, err)
		}
	}
	if other.OwnerDigest() != s.OwnerDigest() {
		t.Error("the digests differ")
	}
}

// Nobody fills a node: an owner has so many keys, and there are so many owners.
func TestOwnerBounds(t *testing.T) {
	var refused *LimitError
	_, own := ownerStore(t, "a")
	for i := range MaxOwnedKeys {
		announce(t, own, Key("gateway/instances/r/"+hex.EncodeToString([]byte{byte(i >> 8), byte(i)})), "")
	}
	if err := own.Put("gateway/nodes/a", nil); err == nil {
		t.Error("a node owns more than it may")
	}
	if err := own.Put("gateway/nodes/a", make([]byte, MaxOwnedValueBytes+1)); err == nil {
		t.Error("a node owns a value that is too large")
	}
	s := memoryStore(t)
	c := OwnerChange{Owner: "b", Incarnation: 1, Seq: MaxOwnedKeys + 1}
	for i := range MaxOwnedKeys + 1 {
		c.Ops = append(c.Ops, OwnerOp{Seq: uint64(i + 1), Key: Key("gateway/instances/r/" + hex.EncodeToString([]byte{byte(i >> 8), byte(i)}))})
	}
	if _, _, err := s.ApplyOwned([][]byte{AppendOwnerChange(nil, c)}); !errors.As(err, &refused) {
		t.Errorf("an owner has one key too many: %v", err)
	}
	for i := range MaxOwners + 10 {
		owner := OwnerID(hex.EncodeToString([]byte{byte(i >> 8), byte(i)}))
		if _, _, err := s.ApplyOwned([][]byte{AppendOwnerChange(nil, OwnerChange{Owner: owner, Incarnation: 1})}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Owners()); n != MaxOwners {
		t.Errorf("%d owners", n)
	}
	// Who was purged makes room.
	s.PurgeOwner("0000")
	if _, _, err := s.ApplyOwned([][]byte{AppendOwnerChange(nil, OwnerChange{Owner: "zz", Incarnation: 1})}); err != nil {
		t.Fatal(err)
	}
	if _, there := markOf(s, "zz"); !there {
		t.Error("a floor is kept in place of an owner")
	}
}
