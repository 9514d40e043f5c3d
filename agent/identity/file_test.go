package identity_test

import (
	"bytes"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"grapevine/agent/identity"
)

func TestTheSameAgainFromTheFile(t *testing.T) {
	o := identity.Options{Path: identityFile(t), Node: nodeID(1)}
	if _, err := identity.Open(o); !errors.Is(err, identity.ErrNoMember) {
		t.Fatalf("before: %v", err)
	}
	id := foundAt(t, o)
	info, err := os.Stat(o.Path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	again, err := identity.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if again.Self() != id.Self() || again.Cluster().Fingerprint() != id.Cluster().Fingerprint() || !again.Expires().Equal(id.Expires()) {
		t.Errorf("opened %v, want %v", again.Self(), id.Self())
	}
	if err := id.Verify(signed(again.Authority(), 1)); err != nil {
		t.Error(err)
	}
	if o := shake(t, again, protocols, as(id, identity.ProtocolRaft)); o.server != nil || o.client != nil {
		t.Error(o.server, o.client)
	}
	_, err = identity.Found(o)
	wantError(t, err, "is a member of cluster "+id.Cluster().ID().String())
	o.Node = nodeID(2)
	_, err = identity.Open(o)
	wantError(t, err, nodeID(1), nodeID(2), "copied data directory")
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Path), "*")); len(names) != 1 {
		t.Errorf("files %q", names)
	}
}

func TestAFileThatOthersMayReadIsRefused(t *testing.T) {
	o := identity.Options{Path: identityFile(t), Node: nodeID(1)}
	foundAt(t, o)
	for _, mode := range []os.FileMode{0o604, 0o640, 0o620, 0o602, 0o644, 0o666, 0o611} {
		if err := os.Chmod(o.Path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := identity.Open(o)
		wantError(t, err, o.Path, fmt.Sprintf("mode %04o", mode), "chmod 600")
	}
	if err := os.Chmod(o.Path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Open(o); err != nil {
		t.Error(err)
	}
}

func TestADraftLeftBehindDoesNotMatter(t *testing.T) {
	o := identity.Options{Path: identityFile(t), Node: nodeID(1)}
	if err := os.WriteFile(o.Path+".new", []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	foundAt(t, o)
	info, err := os.Stat(o.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := identity.Open(o); err != nil {
		t.Error(err)
	}
}

func TestAFolderThatCanNotBeWrittenIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "identity.pem")
	_, err := identity.Found(identity.Options{Path: path, Node: nodeID(1)})
	wantError(t, err, path)
	_, err = identity.Found(identity.Options{Path: t.TempDir(), Node: nodeID(1)})
	wantError(t, err, "no plain file")
	_, err = identity.Found(identity.Options{Node: "n1"})
	wantError(t, err, `node id "n1"`)
}

// TestAFileWithAPartMissingOrStrangeIsRefused takes each block out, and puts
// each block of another cluster in.
func TestAFileWithAPartMissingOrStrangeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := identity.Options{Path: identityFile(t), Node: nodeID(1)}
		foundAt(t, o)
		blocks := blocksOf(t, o.Path)
		other := identity.Options{Path: identityFile(t), Node: nodeID(1)}
		foundAt(t, other)
		strange := blocksOf(t, other.Path)
		if len(blocks) != 6 { // three keys, two certificates, a key of gossip
			t.Fatalf("%d blocks", len(blocks))
		}
		refused := func(what string, blocks []*pem.Block) {
			t.Helper()
			writeBlocks(t, o.Path, blocks)
			id, err := identity.Open(o)
			if err == nil {
				t.Errorf("%s: opened %v", what, id.Self())
				return
			}
			wantError(t, err, o.Path, "restore it from a backup")
			for _, block := range blocks {
				if len(block.Bytes) > 0 && strings.Contains(err.Error(), string(block.Bytes)) {
					t.Errorf("error %q shows a key", err)
				}
			}
		}
		for i, block := range blocks {
			name := fmt.Sprintf("%s %d", block.Type, i)
			refused("without "+name, append(append([]*pem.Block{}, blocks[:i]...), blocks[i+1:]...))
			if block.Type != "GRAPEVINE GOSSIP KEY" { // of which any is as good
				refused("with a strange "+name, append(append(append([]*pem.Block{}, blocks[:i]...), strange[i]), blocks[i+1:]...))
				refused("with one more "+name, append(append([]*pem.Block{}, blocks...), strange[i]))
			}
			half := *block
			half.Bytes = half.Bytes[:len(half.Bytes)/2]
			refused("with half of "+name, append(append(append([]*pem.Block{}, blocks[:i]...), &half), blocks[i+1:]...))
		}
		refused("with a strange kind", append(append([]*pem.Block{}, blocks...), &pem.Block{Type: "EC PRIVATE KEY"}))
		writeBlocks(t, o.Path, blocks)
		if _, err := identity.Open(o); err != nil {
			t.Error("as it was:", err)
		}
	})
}

func TestAnEdgesFileHoldsNoKeyOfTheCluster(t *testing.T) {
	o := identity.Options{Path: identityFile(t), Node: nodeID(1)}
	voter := foundAt(t, o)
	data, err := voter.Provision(nodeID(2), identity.Edge)
	if err != nil {
		t.Fatal(err)
	}
	edge := identity.Options{Path: identityFile(t), Node: nodeID(2)}
	for _, block := range blocksOf(t, o.Path) {
		if block.Type != "PRIVATE KEY" {
			continue
		}
		if err := os.WriteFile(edge.Path, append(bytes.Clone(data), pem.EncodeToMemory(block)...), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := identity.Open(edge)
		wantError(t, err, edge.Path, "key")
	}
}

// TestAChangedCAIsRefused: an edge has no key with which to find out.
func TestAChangedCAIsRefused(t *testing.T) {
	voter := found(t, 1)
	data, err := voter.Provision(nodeID(2), identity.Edge)
	if err != nil {
		t.Fatal(err)
	}
	o := identity.Options{Path: identityFile(t), Node: nodeID(2)}
	if err := os.WriteFile(o.Path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := hex.DecodeString(voterKeyOf(t, voter))
	if err != nil {
		t.Fatal(err)
	}
	blocks := blocksOf(t, o.Path)
	for _, block := range blocks {
		if i := bytes.Index(block.Bytes, key); i >= 0 {
			block.Bytes[i+5]++
		}
	}
	writeBlocks(t, o.Path, blocks)
	_, err = identity.Open(o)
	wantError(t, err, o.Path, "has not signed itself")
}

func voterKeyOf(t *testing.T, id *identity.Identity) string {
	t.Helper()
	ca, err := identity.Inspect(id.Cluster().Certificate())
	if err != nil {
		t.Fatal(err)
	}
	return ca.VoterKey
}

func TestACutFileIsRefused(t *testing.T) {
	o := identity.Options{Path: identityFile(t), Node: nodeID(1)}
	foundAt(t, o)
	data, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(data)-1; n += 7 {
		if err := os.WriteFile(o.Path, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := identity.Open(o); err == nil || errors.Is(err, identity.ErrNoMember) {
			t.Errorf("the first %d of %d bytes: %v", n, len(data), err)
		}
	}
	if err := os.WriteFile(o.Path, bytes.Repeat([]byte("a"), 65<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = identity.Open(o)
	wantError(t, err, "66560 bytes")
}

func TestGossipKeysAreKept(t *testing.T) {
	o := identity.Options{Path: identityFile(t), Node: nodeID(1)}
	id := foundAt(t, o)
	first := id.GossipKeys()
	if len(first) != 1 || len(first[0]) != 32 {
		t.Fatalf("keys %x", first)
	}
	next := [][]byte{bytes.Repeat([]byte{7}, 32), first[0]}
	if err := id.SetGossipKeys(next); err != nil {
		t.Fatal(err)
	}
	next[0][0] = 9 // which is ours
	id.GossipKeys()[1][0]++
	want := fmt.Sprint([][]byte{bytes.Repeat([]byte{7}, 32), first[0]})
	if got := fmt.Sprint(id.GossipKeys()); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
	again, err := identity.Open(o)
	if err != nil || fmt.Sprint(again.GossipKeys()) != want {
		t.Errorf("opened %v, %v", again, err)
	}
	for _, bad := range [][][]byte{nil, {make([]byte, 31)}, {next[0], next[0]}, make([][]byte, 17)} {
		wantError(t, id.SetGossipKeys(bad), "gossip key")
	}
	if got := fmt.Sprint(id.GossipKeys()); got != want {
		t.Errorf("afterwards keys %s, want %s", got, want)
	}
}

func blocksOf(t *testing.T, path string) (blocks []*pem.Block) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return blocks
		}
		blocks, data = append(blocks, block), rest
	}
}

func writeBlocks(t *testing.T, path string, blocks []*pem.Block) {
	t.Helper()
	var buf bytes.Buffer
	for _, block := range blocks {
		if err := pem.Encode(&buf, block); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
