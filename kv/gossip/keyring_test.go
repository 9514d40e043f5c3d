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
func TestKeysAreRotated(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 5)
		old, next := c.key, []byte(strings.Repeat("n", KeyBytes))
		for _, step := range []func(*Peer) error{
			func(p *Peer) error { return p.AddKey(next) },
			func(p *Peer) error { return p.UseKey(next) },
			func(p *Peer) error { return p.RemoveKey(old) },
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
			{"use of an unknown key", p.UseKey(one), ErrKeyUnknown},
			{"removal of the key in use", p.RemoveKey(c.key), ErrKeyInUse},
			{"a second key", p.AddKey(one), nil},
			{"a third key", p.AddKey(two), ErrKeysFull},
			{"removal of an unknown key", p.RemoveKey(two), nil},
		} {
			if !errors.Is(tt.err, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.what, tt.err, tt.want)
			}
		}
		if err := p.AddKey([]byte("short")); err == nil {
			t.Error("a short key was taken")
		}
	})
	inBubble(t, func(t *testing.T, c *cluster) {
		c.key = nil
		c.start(t, 2)
		if err := c.leader().peer.AddKey(make([]byte, KeyBytes)); !errors.Is(err, ErrNotEncrypted) {
			t.Errorf("in the clear: got %v", err)
		}
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 5*time.Second)
	})
}
