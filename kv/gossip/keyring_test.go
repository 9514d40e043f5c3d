package gossip

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"grapevine/kv"
)

// The key is replaced while heads and probes go on; see also the race detector.
func TestPitfall28KeysAreRotated(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		old, next := c.key, []byte(strings.Repeat("n", KeyBytes))
		for _, step := range []func(*Peer) error{
			func(p *Peer) error { return p.SetKeys(old, next) },
			func(p *Peer) error { return p.SetKeys(next, old) },
			func(p *Peer) error { return p.SetKeys(next) },
		} {
			for _, n := range c.nodes {
				if err := step(n.peer); err != nil {
					t.Fatal(err)
				}
				if err := step(n.peer); err != nil {
					t.Fatalf("the same again: %v", err)
				}
				<-time.After(500 * time.Millisecond)
			}
			c.leader().write(t, kv.Put("a", nil))
			c.wantSame(t, 5*time.Second)
			c.wantMembers(t, 5, time.Second)
		}
		// Who has only the old key is out.
		late := c.add(t)
		late.start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := late.peer.Join(ctx, c.leader().address()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("join with the old key: got %v", err)
		}
		late.stop()
		c.key = next
		late.start(t)
		late.join(t, c.leader())
		c.wantMembers(t, 6, 10*time.Second)
	})
}

func TestKeysAreChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 1)
		p := c.leader().peer
		one, two := []byte(strings.Repeat("1", KeyBytes)), []byte(strings.Repeat("2", KeyBytes))
		for _, tt := range []struct {
			what string
			err  error
			want error
		}{
			{"use of an unknown key", p.useKey(one), ErrKeyUnknown},
			{"removal of the key in use", p.removeKey(c.key), ErrKeyInUse},
			{"a second key", p.addKey(one), nil},
			{"a third key", p.addKey(two), ErrKeysFull},
			{"removal of an unknown key", p.removeKey(two), nil},
		} {
			if !errors.Is(tt.err, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.what, tt.err, tt.want)
			}
		}
		if err := p.addKey([]byte("short")); err == nil {
			t.Error("a short key was taken")
		}
	})
	inBubble(t, func(t *testing.T, c *cluster) {
		c.key = nil
		c.start(t, 2)
		if err := c.leader().peer.addKey(make([]byte, KeyBytes)); !errors.Is(err, ErrNotEncrypted) {
			t.Errorf("in the clear: got %v", err)
		}
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 5*time.Second)
	})
}

// From any keys to any others: who was away for several rotations has no key left
// that is meant.
func TestKeysAreSet(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 1)
		p := c.leader().peer
		key := func(name byte) []byte { return []byte(strings.Repeat(string(name), KeyBytes)) }
		for _, names := range []string{"a", "ab", "ba", "b", "cd", "dc", "ce", "a", "ab", "cb", "bd", "db"} {
			var keys [][]byte
			for _, name := range []byte(names) {
				keys = append(keys, key(name))
			}
			if err := p.SetKeys(keys...); err != nil {
				t.Fatalf("%s: %v", names, err)
			}
			has := ""
			for _, k := range p.keys.ring.GetKeys() {
				has += string(k[0])
			}
			if has != names {
				t.Errorf("%s: it has %s", names, has)
			}
		}
		for what, keys := range map[string][][]byte{"no key": nil, "three": {key('a'), key('b'), key('c')}, "a short one": {key('a'), []byte("b")}} {
			if err := p.SetKeys(keys...); err == nil {
				t.Errorf("%s: taken", what)
			}
		}
	})
}
