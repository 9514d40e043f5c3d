package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

// hashicorp/raft #503: a leader whose disk hangs does not keep the others from
// electing another, and follows when the disk is back.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 503, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		back := make(chan struct{})
		leader.home.SetFault(func(string) error { <-back; return nil })
		rest := c.others(leader)
		hung := make(chan error, 1)
		go func() {
			_, err := leader.put("b", "2")
			hung <- err
		}()
		began := time.Now()
		c.eventually("another leader", func() bool {
			for _, n := range rest {
				if _, here, _ := n.raft.Leader(); here {
					return true
				}
			}
			return false
		})
		if took := time.Since(began); took > 3*time.Second+3*time.Second {
			t.Errorf("another leader after %v", took)
		}
		rest[0].mustPut("c", "3")

		// Who asks the node whose disk hangs is heard by the others, and is not kept
		// longer than it wants to wait.
		leader.mustPut("d", "4")
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := leader.raft.Read(soon); err == nil {
			t.Error("a node whose disk hangs has what was written meanwhile")
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("a read that had a second came back after %v", took)
		}
		close(back)
		leader.home.SetFault(nil)
		if err := <-hung; err != nil {
			t.Errorf("the write through the hanging node: %v", err)
		}
		c.agree()
		if count := leader.store.View().Len(); count != 4 {
			t.Errorf("%d keys; want 4", count)
		}
	})
}

// A disk that is slow keeps nobody longer than its context.
func TestSlowDiskAndContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 504, 1)
		defer c.stop()
		c.begin()
		n := c.leader()
		n.mustPut("a", "1")
		back := make(chan struct{})
		n.home.SetFault(func(string) error { <-back; return nil })
		hung := make(chan error, 1)
		go func() {
			_, err := n.put("b", "2")
			hung <- err
		}()
		<-time.After(time.Second)
		for name, ask := range map[string]func(context.Context) error{
			"read": func(ctx context.Context) error { _, err := n.raft.Read(ctx); return err },
			"change": func(ctx context.Context) error {
				return n.raft.Change(ctx, consensus.Change{Kind: consensus.Remove, Server: "x"}, 0)
			},
		} {
			soon, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			if err := ask(soon); err == nil {
				t.Errorf("%s: no error", name)
			}
			cancel()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s: came back after %v", name, took)
			}
		}
		close(back)
		n.home.SetFault(nil)
		if err := <-hung; err != nil {
			t.Error(err)
		}
	})
}

// A log that can't be written, as on a full disk, moves leadership and ends no
// process; it heals by itself.
func TestFailingLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 28, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		full := fmt.Errorf("raft.db: %w", kv.ErrDiskFull)
		leader.home.SetFault(func(string) error { return full })
		if _, err := leader.put("b", "2"); err != nil {
			t.Errorf("a write while the leader's disk is full: %v", err)
		}
		if now := c.leader(c.others(leader)...); now == leader {
			t.Error("it leads still")
		}
		c.eventually("the problem", func() bool { return errors.Is(leader.raft.Problem(), kv.ErrDiskFull) })
		leader.home.SetFault(nil)
		c.agree()
		c.eventually("no problem", func() bool { return leader.raft.Problem() == nil })
		leader.mustPut("c", "3")
		c.agree()
	})
}

// A term that can't be written would make raft panic. Instead the node waits.
func TestTermThatCantBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 29, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		rest := c.others(leader)
		for _, n := range rest {
			n.home.SetFault(func(write string) error {
				if write == "CurrentTerm" {
					return errors.New("input/output error")
				}
				return nil
			})
		}
		leader.kill()
		<-time.After(20 * time.Second)
		if rest[0].raft.Problem() == nil && rest[1].raft.Problem() == nil {
			t.Error("nobody has a problem")
		}
		for _, n := range rest {
			n.home.SetFault(nil)
		}
		rest[0].mustPut("b", "2")
		leader.start()
		c.agree()
	})
}

// Every node starts again and again with the same flags: the cluster stays one.
func TestSameFlagsForkNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4, 3)
		defer c.stop()
		c.begin()
		c.leader().mustPut("a", "1")
		c.agree()
		epoch := c.nodes[0].store.View().Head().EpochID
		var servers []consensus.Server
		for _, n := range c.nodes {
			servers = append(servers, n.asServer(true))
		}
		for n := range 100 {
			for _, node := range c.nodes {
				node.kill()
			}
			for _, node := range c.nodes {
				node.start()
			}
			if err := c.nodes[0].raft.Bootstrap(servers...); !errors.Is(err, consensus.ErrHasState) {
				t.Fatalf("start %d: bootstrap gave %v; want ErrHasState", n, err)
			}
		}
		c.nodes[1].mustPut("b", "2")
		c.agree()
		for _, node := range c.nodes {
			if node.store.View().Head().EpochID != epoch || node.store.View().Len() != 2 {
				t.Errorf("node %s is at %+v with %d keys", node.name, node.store.View().Head(), node.store.View().Len())
			}
		}
	})
}

// A majority lost its disks and begins anew with the same flags. The one that has
// the old state does not give it up: it keeps it to itself, or gives it to the others
// if it is elected.
func TestMajorityWiped(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, seed, 3)
			defer c.stop()
			c.begin()
			for n := range 10 {
				c.nodes[0].mustPut("old", fmt.Sprint(n))
			}
			c.agree()
			old := c.nodes[2]
			head := old.store.View().Head()
			for _, n := range c.nodes {
				n.kill()
			}
			for _, n := range c.nodes[:2] {
				n.store.Close()
				n.store, n.home = nil, nil
			}
			late := seed%2 == 0 // whether the others are a cluster when it comes
			if !late {
				old.start()
			}
			var servers []consensus.Server
			for _, n := range c.nodes {
				servers = append(servers, n.asServer(true))
			}
			for _, n := range c.nodes[:2] {
				n.start()
			}
			if err := c.nodes[0].raft.Bootstrap(servers...); err != nil && late {
				t.Fatal(err)
			}
			if late {
				c.nodes[1].mustPut("new", "0")
				old.start()
			}
			check := func(when string) {
				t.Helper()
				now, err := old.store.At(head.Rev)
				if err != nil || now.Head().Hash != head.Hash {
					t.Errorf("%s: the old state is at %+v, %v", when, old.store.View().Head(), err)
				}
			}
			c.nodes[1].mustPut("new", "1")
			<-time.After(20 * time.Second)
			check("after a while")
			old.kill()
			old.start()
			check("after a restart")
			kept := old.store.View().Rev().Rev == head.Rev.Rev
			given := c.nodes[1].store.View().Head().EpochID == head.EpochID
			if kept == given {
				t.Errorf("kept is %t and given is %t", kept, given)
			}
			if given {
				return
			}
			// What it keeps counts for nobody else: with it, the other is no majority.
			c.nodes[1].kill()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if result, err := c.nodes[0].raft.Propose(ctx, put("alone")); err == nil {
				t.Errorf("a write was acknowledged by one of two: %+v", result)
			}
		})
	}
}

// A voter that was cut off and removed meanwhile disturbs nobody when it is back.
func TestRemovedVoterDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 6, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		c.agree()
		removed := c.others(leader)[0]
		c.net.Partition(ips(removed), ips(c.others(removed)...))
		<-time.After(5 * time.Second)
		_, index := leader.raft.Configuration()
		if err := leader.raft.Change(t.Context(), consensus.Change{Kind: consensus.Remove, Server: removed.server}, index); err != nil {
			t.Fatal(err)
		}
		term := leader.raft.Term()
		c.net.Heal()
		<-time.After(30 * time.Second)
		if now := leader.raft.Term(); now != term || c.leader() != leader {
			t.Errorf("term %d, then %d; %s leads", term, now, c.leader().name)
		}
		leader.mustPut("b", "2")
	})
}

// One request, asked of every node, again and again, over leader kills: one commit.
func TestRequestIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 7, 3)
		defer c.stop()
		c.begin()
		c.leader()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for n := range 10 {
			txn := kv.Txn{ID: fmt.Sprint("request ", n), Then: []kv.Op{kv.Put(kv.Key(fmt.Sprint("k", n)), nil)}}
			var asking sync.WaitGroup
			var revs sync.Map
			for _, node := range c.nodes {
				raft := node.raft
				for range 3 {
					asking.Go(func() {
						result, err := raft.Propose(ctx, txn)
						if errors.Is(err, consensus.ErrClosed) || errors.As(err, new(*consensus.UnknownError)) && raft != node.raft {
							return // it was killed with its node
						}
						if err != nil || !result.Succeeded {
							t.Errorf("request %d: %+v, %v", n, result, err)
							return
						}
						revs.Store(result.Rev, true)
					})
				}
			}
			if n%3 == 1 {
				leader := c.leader()
				leader.kill()
				leader.start()
			}
			asking.Wait()
			different := 0
			revs.Range(func(any, any) bool { different++; return true })
			if different != 1 {
				t.Errorf("request %d has %d revisions", n, different)
			}
		}
		c.agree()
		for _, node := range c.nodes {
			if rev := node.store.View().Rev().Rev; rev != 10 {
				t.Errorf("node %s is at revision %d; want 10", node.name, rev)
			}
		}
	})
}

// Writes continue while a new node takes a snapshot over a slow link, and fewer
// entries are kept than come in that time: it catches up all the same.
func TestLearnerCatchesUpUnderWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 8, 3)
		c.change = func(_ *node, o *consensus.Options) {
			o.Timing = consensus.Timing{SnapshotInterval: 500 * time.Millisecond, SnapshotEntries: 20, TrailingEntries: 10}
		}
		defer c.stop()
		c.begin()
		leader := c.leader()
		for n := range 50 {
			leader.mustPut(kv.Key(fmt.Sprint("k", n)), string(make([]byte, 100<<10)))
		}
		c.net.SetDelay(20*time.Millisecond, 40*time.Millisecond)
		learner := c.add()
		learner.start()
		var stop atomic.Bool
		var writing sync.WaitGroup
		writing.Go(func() {
			for n := 0; !stop.Load(); n++ {
				leader.mustPut("written", fmt.Sprint(n))
			}
		})
		_, index := leader.raft.Configuration()
		address := learner.asServer(false).Address
		if err := leader.raft.Change(t.Context(), consensus.Change{Kind: consensus.AddLearner, Server: learner.server, Address: address}, index); err != nil {
			t.Fatal(err)
		}
		c.eventually("the learner is caught up", func() bool {
			behind := leader.store.View().Rev().Rev - learner.store.View().Rev().Rev
			return learner.store.View().Len() == 51 && behind < 10
		})
		stop.Store(true)
		writing.Wait()
		c.agree()
		if learner.raft.Role() != consensus.RoleLearner {
			t.Errorf("its role is %s", learner.raft.Role())
		}
	})
}
