package consensus_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv/consensus"
)

// hashicorp/raft #697: a follower has entries of a term that was lost, and is so far
// behind that it gets a snapshot. It must drop them and go on; raft by itself would
// keep one at the snapshot's index and refuse all that follows.
func TestSnapshotOverConflictingTail(t *testing.T) {
	for _, tail := range []int{0, 1, 30} { // entries of the follower from the snapshot's index on
		t.Run(fmt.Sprint(tail), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 697, 3)
				c.change = func(_ *node, o *consensus.Options) { o.Timing.TrailingEntries = 1 }
				defer c.stop()
				c.begin()
				c.leader().mustPut("a", "1")
				c.agree()
				leader := c.leader()
				follower := c.others(leader)[0]
				follower.kill()
				for n := range 20 {
					leader.mustPut("k", fmt.Sprint(n))
				}
				if err := leader.raft.TakeSnapshot(); err != nil {
					t.Fatal(err)
				}
				at := leader.raft.LastIndex()
				for index := follower.home.Last() + 1; index < at+uint64(tail); index++ {
					if err := follower.home.Append(index, leader.raft.Term()-1); err != nil {
						t.Fatal(err)
					}
				}
				follower.start()
				began := time.Now()
				leader.mustPut("z", "1")
				c.agree()
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("the follower caught up after %v", took)
				}
				if now := c.leader(); now != leader {
					t.Errorf("%s leads now", now.name)
				}
				follower.mustPut("through-it", "1")
				c.agree()
			})
		})
	}
}

// A follower whose log begins right after another's snapshot has entries of a lost
// term there. The point where the two logs part is the snapshot itself, of which
// the log knows nothing: it must not need another snapshot, for there may be none
// that is newer.
func TestConflictRightAfterASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 699, 3)
		c.change = func(_ *node, o *consensus.Options) { o.Timing.TrailingEntries = 1 }
		defer c.stop()
		c.begin()
		c.leader().mustPut("a", "1")
		c.agree()
		leader := c.leader()
		follower := c.others(leader)[0]
		follower.kill()
		for n := range 20 {
			leader.mustPut("k", fmt.Sprint(n))
		}
		if err := leader.raft.TakeSnapshot(); err != nil {
			t.Fatal(err)
		}
		follower.start()
		c.agree()
		at := leader.raft.LastIndex()
		c.eventually("the snapshot is taken", func() bool { return follower.raft.LastIndex() == at })
		follower.kill()
		if first := follower.home.First(); first != 0 {
			t.Fatalf("its log begins at %d; want an empty one", first)
		}
		for n := range uint64(3) {
			if err := follower.home.Append(at+1+n, leader.raft.Term()-1); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 5 {
			leader.mustPut("l", fmt.Sprint(n))
		}
		follower.start()
		began := time.Now()
		c.agree()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the follower caught up after %v", took)
		}
	})
}

// A snapshot that comes once more, late, is acknowledged and takes nothing back.
func TestLateSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 698, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		if err := leader.raft.TakeSnapshot(); err != nil {
			t.Fatal(err)
		}
		leader.mustPut("b", "2")
		c.agree()
		follower := c.others(leader)[0]
		before, last := follower.raft.Instance(), follower.raft.LastIndex()
		installed, err := leader.raft.SendSnapshot(follower.server, follower.asServer(true).Address)
		if err != nil || !installed {
			t.Errorf("the snapshot was answered %t, %v", installed, err)
		}
		if _, there := follower.store.View().Get("b"); !there || follower.raft.LastIndex() != last || follower.raft.Instance() != before {
			t.Error("it was taken")
		}
		leader.mustPut("c", "3")
		c.agree()
	})
}
