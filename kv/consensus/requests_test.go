package consensus_test

import (
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

// A read through any node holds what any other acknowledged before.
func TestReadSeesWhatWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 21, 3)
		defer c.stop()
		c.begin()
		for n := range 30 {
			writer, reader := c.nodes[n%3], c.nodes[(n+1+n/3)%3]
			writer.mustPut("k", fmt.Sprint(n))
			view, err := reader.raft.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if entry, _ := view.Get("k"); string(entry.Value) != fmt.Sprint(n) {
				t.Fatalf("%s reads %s after %s wrote %d", reader.name, entry.Value, writer.name, n)
			}
		}
	})
}

// A new leader answers nothing before it has applied what its predecessor
// acknowledged last, which it may have in its log without knowing that it counts.
func TestNewLeaderHasAppliedAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 20, 3)
		defer c.stop()
		c.begin()
		c.leader().mustPut("k", "begin")
		for n := range 25 {
			c.agree()
			leader := c.leader()
			leader.mustPut("k", fmt.Sprint(n))
			leader.kill()
			next := c.leaderAtOnce()
			view, err := next.raft.Read(t.Context())
			if entry, _ := view.Get("k"); err != nil || string(entry.Value) != fmt.Sprint(n) {
				t.Fatalf("round %d: the new leader reads %s, %v", n, entry.Value, err)
			}
			leader.start()
		}
	})
}

// leaderAtOnce returns the moment that a node takes itself for the leader.
func (c *cluster) leaderAtOnce() *node {
	for {
		var changes []<-chan struct{}
		for _, n := range c.nodes {
			if n.raft == nil {
				continue
			}
			_, here, changed := n.raft.Leader()
			if here {
				return n
			}
			changes = append(changes, changed)
		}
		select {
		case <-changes[0]:
		case <-changes[1]:
		}
	}
}

// A leader that is cut off neither reads nor writes, nor answers what would need no
// write; its clients learn that there is no quorum.
func TestLeaderThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 22, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("k", "old")
		c.agree()
		c.net.Partition(ips(leader), ips(c.others(leader)...))
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		absent := kv.Txn{Compare: []kv.Compare{{Key: "k", Target: kv.TargetAbsent}}, Then: []kv.Op{kv.Put("k", nil)}}
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := leader.raft.Read(ctx); !errors.Is(err, consensus.ErrNoQuorum) {
				t.Errorf("a read: %v; want ErrNoQuorum", err)
			}
		})
		asking.Go(func() {
			if result, err := leader.raft.Propose(ctx, absent); !errors.Is(err, consensus.ErrNoQuorum) {
				t.Errorf("a write whose compare fails: %+v, %v; want ErrNoQuorum", result, err)
			}
		})
		asking.Go(func() {
			// This one may have reached raft's log before the leader stepped down.
			_, err := leader.raft.Propose(ctx, put("lost"))
			var unknown *consensus.UnknownError
			if !errors.As(err, &unknown) && !errors.Is(err, consensus.ErrNoQuorum) {
				t.Errorf("a write: %v", err)
			}
		})
		asking.Wait()
		c.others(leader)[0].mustPut("k", "new")
		c.net.Heal()
		view, err := leader.raft.Read(t.Context())
		if entry, _ := view.Get("k"); err != nil || string(entry.Value) != "new" {
			t.Errorf("after it is back: %s, %v", entry.Value, err)
		}
		c.agree()
	})
}

// What the leader's check, its Admit or the store refuses arrives at the node that
// asked, and changes nothing.
func TestRefusalsTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk is nearly full")
		var closed atomic.Bool
		c := newCluster(t, 23, 3)
		c.change = func(_ *node, o *consensus.Options) {
			o.Check = func(_, candidate kv.View) error {
				if _, bad := candidate.Get("bad"); bad {
					return errors.New("bad is not allowed")
				}
				return nil
			}
			o.Admit = func() error {
				if closed.Load() {
					return full
				}
				return nil
			}
		}
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("good", "1")
		for _, n := range c.nodes {
			for _, ask := range []func(context.Context, kv.Txn) (kv.Result, error){n.raft.Propose, n.raft.Trial} {
				if _, err := ask(t.Context(), put("bad")); err == nil || err.Error() != "bad is not allowed" {
					t.Errorf("%s: %v", n.name, err)
				}
				var key *kv.KeyError
				if _, err := ask(t.Context(), put("no//key")); !errors.As(err, &key) {
					t.Errorf("%s: %v; want a KeyError", n.name, err)
				}
			}
			tried, err := n.raft.Trial(t.Context(), put("more"))
			if err != nil || !tried.Succeeded || tried.Rev.Rev != 2 {
				t.Errorf("%s: trial %+v, %v", n.name, tried, err)
			}
		}
		closed.Store(true)
		for _, n := range c.nodes {
			if _, err := n.raft.Propose(t.Context(), put("more")); err == nil || err.Error() != full.Error() {
				t.Errorf("%s: %v; want %v", n.name, err, full)
			}
		}
		c.agree()
		if view := leader.store.View(); view.Len() != 1 || view.Rev().Rev != 1 {
			t.Errorf("%d keys at %s", view.Len(), view.Rev())
		}
	})
}

// Each commit carries the signature of its head, on every node.
func TestCommitsAreSigned(t *testing.T) {
	sign := func(b []byte) [64]byte { return sha512.Sum512(append([]byte("secret"), b...)) }
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 24, 3)
		c.change = func(_ *node, o *consensus.Options) { o.Sign = sign }
		defer c.stop()
		c.begin()
		for n := range 5 {
			c.nodes[n%3].mustPut(kv.Key(fmt.Sprint("k", n)), "")
		}
		c.agree()
		for _, n := range c.nodes {
			commits, err := n.store.History("", kv.Rev{}, 0)
			if err != nil || len(commits) != 5 {
				t.Fatalf("%s has %d commits, %v", n.name, len(commits), err)
			}
			for _, commit := range commits {
				at, err := n.store.At(commit.Rev)
				if err != nil || commit.Signature != sign(at.Head().SigningBytes()) || commit.Index == 0 {
					t.Errorf("%s: revision %s is not signed, or has no index: %v", n.name, commit.Rev, err)
				}
			}
		}
	})
}

// Writers that come together share a round of raft and a sync.
func TestWritersShareARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 25, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("first", "")
		var syncs atomic.Int64
		leader.home.SetFault(func(string) error {
			syncs.Add(1)
			<-time.After(time.Millisecond) // as long as a disk takes
			return nil
		})
		began := time.Now()
		var writing sync.WaitGroup
		for n := range 200 {
			writing.Go(func() { leader.mustPut(kv.Key(fmt.Sprint("k", n)), "") })
		}
		writing.Wait()
		if n := syncs.Load(); n > 20 {
			t.Errorf("200 writes took %d syncs", n)
		}
		t.Logf("200 writes: %d syncs of the leader's log, %v on links of 0.2 to 2 ms", syncs.Load(), time.Since(began))
		c.agree()
	})
}

// The same id is the same request, whoever asks: also when it changed nothing, and
// even if the state has changed since.
func TestAnswersAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 26, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		present := kv.Txn{ID: "one", Compare: []kv.Compare{{Key: "k", Target: kv.TargetAbsent, Op: kv.NotEqual}}, Then: []kv.Op{kv.Put("k", nil)}}
		if result, err := leader.raft.Propose(t.Context(), present); err != nil || result.Succeeded {
			t.Fatalf("%+v, %v; want not succeeded", result, err)
		}
		leader.mustPut("k", "1")
		for _, n := range c.nodes {
			if result, err := n.raft.Propose(t.Context(), present); err != nil || result.Succeeded {
				t.Errorf("%s: %+v, %v; want what was said before", n.name, result, err)
			}
		}
		other := present
		other.ID = "two"
		var revs []kv.Rev
		for _, n := range c.nodes {
			result, err := n.raft.Propose(t.Context(), other)
			if err != nil || !result.Succeeded || !slices.Equal(result.Changed, []kv.Key{"k"}) {
				t.Errorf("%s: %+v, %v", n.name, result, err)
			}
			revs = append(revs, result.Rev)
		}
		if len(slices.Compact(revs)) != 1 {
			t.Errorf("revisions %v", revs)
		}
	})
}

// A request that is asked twice while neither has been done is done once.
func TestSameRequestInOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 26, 1)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("first", "")
		back := make(chan struct{})
		leader.home.SetFault(func(string) error { <-back; return nil })
		same := put("same")
		same.ID = "same"
		var revs sync.Map
		var asking sync.WaitGroup
		for _, txn := range []kv.Txn{put("second"), same, same, same} {
			asking.Go(func() {
				result, err := leader.raft.Propose(t.Context(), txn)
				if err != nil {
					t.Error(err)
				}
				revs.Store(txn.ID, result.Rev)
			})
			synctest.Wait()
		}
		close(back)
		asking.Wait()
		if rev := leader.store.View().Rev().Rev; rev != 3 {
			t.Errorf("revision %d; want 3", rev)
		}
		if rev, _ := revs.Load("same"); rev != (kv.Rev{Epoch: 1, Rev: 3}) {
			t.Errorf("it was answered revision %v", rev)
		}
	})
}

// OnLeadership is told in turns, and of the beginning only when all that came
// before is in the store.
func TestLeadershipIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards told
		told := map[string][]bool{}
		c := newCluster(t, 29, 3)
		c.change = func(n *node, o *consensus.Options) {
			store := n.store
			o.OnLeadership = func(leads bool) {
				mu.Lock()
				defer mu.Unlock()
				told[n.name] = append(told[n.name], leads)
				if want := uint64(len(told[n.name])); leads && want > 2 && store.View().Rev().Rev < 1 {
					t.Errorf("%s leads at %s", n.name, store.View().Rev())
				}
			}
		}
		defer c.stop()
		c.begin()
		for range 4 {
			leader := c.leader()
			leader.mustPut("k", "")
			c.agree()
			if err := leader.raft.TransferLeadership(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}
		c.leader().mustPut("k", "")
		c.agree()
		mu.Lock()
		defer mu.Unlock()
		begun := 0
		for name, all := range told {
			for n, leads := range all {
				if leads != (n%2 == 0) {
					t.Errorf("%s was told %v", name, all)
					break
				}
				if leads {
					begun++
				}
			}
		}
		if begun < 5 {
			t.Errorf("%d terms were told of: %v", begun, told)
		}
	})
}

// A log entry that this program does not know stops the nodes that see it, by name,
// and takes their tables from nobody.
func TestUnknownEntryInTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 30, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		c.agree()
		if err := leader.raft.ApplyRaw([]byte{42, 1, 2}); err != nil {
			t.Fatal(err)
		}
		// The third never learns that it was committed.
		c.eventually("a majority has stopped", func() bool {
			stopped := 0
			for _, n := range c.nodes {
				if errors.As(n.raft.Problem(), new(*consensus.StoppedError)) {
					stopped++
				}
			}
			return stopped == 2
		})
		if _, there := leader.store.View().Get("a"); !there {
			t.Error("the key is gone")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := leader.raft.Propose(ctx, put("b")); !errors.As(err, new(*consensus.UnavailableError)) {
			t.Errorf("a write: %v", err)
		}
	})
}
