package consensus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

// A node that is alone leads at once, and takes writes.
func TestSingleVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1)
		defer c.stop()
		began := time.Now()
		c.begin()
		n := c.nodes[0]
		if result := n.mustPut("a", "1"); result.Rev.Rev != 1 {
			t.Errorf("revision %s; want 1.1", result.Rev)
		}
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("the first write took %v; want less than 300 ms", took)
		}
		n.kill()
		began = time.Now()
		n.start()
		n.mustPut("b", "2")
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("the first write after a restart took %v; want less than 300 ms", took)
		}
	})
}

// Three nodes elect a leader; writes through any of them reach all; a leader that
// is killed is replaced within some seconds, and comes back.
func TestThreeVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, 3)
		defer c.stop()
		c.begin()
		for _, n := range c.nodes {
			n.mustPut("by/"+kvKey(n.name), n.name)
		}
		c.agree()
		leader := c.leader()
		leader.kill()
		began := time.Now()
		other := c.others(leader)[0]
		other.mustPut("after", "1")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the first write after the leader was killed took %v", took)
		}
		leader.start()
		leader.mustPut("back", "1")
		c.agree()
		if rev := leader.store.View().Rev().Rev; rev != 5 {
			t.Errorf("revision %d; want 5", rev)
		}
	})
}

// Without a quorum a write fails by name when its context ends, and local reads go on.
func TestNoQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		c.agree()
		rest := c.others(leader)
		leader.kill()
		rest[0].kill()
		<-time.After(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := rest[1].raft.Propose(ctx, put("b"))
		var unavailable *consensus.UnavailableError
		if !errors.As(err, &unavailable) || !errors.Is(err, consensus.ErrNoQuorum) || errors.Is(err, consensus.ErrNoLeader) {
			t.Fatalf("got %v; want ErrNoQuorum", err)
		}
		if len(unavailable.Voters) != 3 || len(unavailable.Unreachable) != 2 {
			t.Errorf("of %v unreachable are %v", unavailable.Voters, unavailable.Unreachable)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is not the context's error", err)
		}
		if _, there := rest[1].store.View().Get("a"); !there {
			t.Error("the key is gone")
		}
	})
}

func kvKey(s string) kv.Key { return kv.Key(s) }
