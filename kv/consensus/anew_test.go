package consensus_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv/consensus"
)

// A voter that lost its log, and is another server by now, gives no vote in the name
// of the one that it was: not to who lacks what that one has agreed to.
func TestForgottenVotesDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onDisk(t, 41, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		c.agree()
		others := c.others(leader)
		forgetful, behind := others[0], others[1]
		c.net.Partition(ips(behind), ips(leader, forgetful))
		leader.mustPut("b", "acknowledged")
		leader.kill()
		forgetful.kill()
		if err := os.RemoveAll(filepath.Join(forgetful.path(), "raft")); err != nil {
			t.Fatal(err)
		}
		forgetful.server += ".2"
		forgetful.start()
		c.net.Heal()
		for range 30 {
			<-time.After(time.Second)
			for _, n := range []*node{forgetful, behind} {
				if _, here, _ := n.raft.Leader(); here {
					t.Fatalf("%s leads, and nobody that lives has what was acknowledged", n.name)
				}
			}
		}
		leader.start()
		c.leader().mustPut("c", "1")
		if entry, _ := c.leader().store.View().Get("b"); string(entry.Value) != "acknowledged" {
			t.Errorf("the acknowledged write is %q", entry.Value)
		}
	})
}

// A majority is lost: the node that is left goes on alone, with what was acknowledged
// by the last leader and of which it had not been told that it counts. The others
// come back: they can't disturb it, and join it when they give way.
func TestRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onDisk(t, 42, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		c.agree()
		leader.mustPut("b", "acknowledged")
		leader.kill()
		survivor, other := c.others(leader)[0], c.others(leader)[1]
		if other.raft.LastIndex() > survivor.raft.LastIndex() {
			survivor, other = other, survivor
		}
		if survivor.store.View().Rev().Rev != 1 {
			t.Fatal("the survivor was told already; this test is to show what happens when it was not")
		}
		other.kill()
		renamed := false
		err := survivor.raft.Recover(consensus.Recovery{
			Server: survivor.name + ".2", EpochID: [16]byte{7}, Renamed: func() error { renamed = true; return nil },
		})
		if err != nil || !renamed {
			t.Fatalf("recover: %v, renamed %t", err, renamed)
		}
		survivor.server += ".2"
		if entry, _ := survivor.store.View().Get("b"); string(entry.Value) != "acknowledged" {
			t.Errorf("the acknowledged write is %q", entry.Value)
		}
		if result := survivor.mustPut("c", "3"); result.Rev.Epoch != 2 || result.Rev.Rev != 3 {
			t.Errorf("revision %s; want 2.3", result.Rev)
		}
		term := survivor.raft.Term()

		// The old majority elects a leader of its own, and stays away from the survivor.
		other.start()
		leader.start()
		c.leader(leader, other).mustPut("d", "old")
		<-time.After(20 * time.Second)
		if _, here, _ := survivor.raft.Leader(); !here || survivor.raft.Term() != term {
			t.Errorf("the survivor leads: %t, in term %d; want %d", here, survivor.raft.Term(), term)
		}
		if _, is := survivor.store.View().Get("d"); is {
			t.Error("the survivor has a write of the old epoch")
		}

		leader.kill()
		if err := other.raft.GiveWay(other.name+".2", func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		other.server += ".2"
		if other.raft.InRaft() {
			t.Error("who gave way is in raft still")
		}
		var kept bytes.Buffer
		if _, err := survivor.store.Snapshot().WriteTo(&kept); err != nil {
			t.Fatal(err)
		}
		server := other.asServer(false)
		_, index := survivor.raft.Configuration()
		step := consensus.Change{Kind: consensus.AddLearner, Server: server.ID, Address: server.Address}
		if err := survivor.raft.Change(t.Context(), step, index); err != nil {
			t.Fatal(err)
		}
		c.agree()
		if role := other.raft.Role(); role != consensus.RoleLearner {
			t.Errorf("who gave way is a %s now; want a learner", role)
		}

		// And after a restart of both, all the same.
		survivor.kill()
		other.kill()
		survivor.start()
		other.start()
		survivor.mustPut("e", "5")
		c.agree()
	})
}

// What can't be caught up with leaves all as it was.
func TestRecoverThatCannotCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onDisk(t, 43, 1)
		defer c.stop()
		c.begin()
		n := c.nodes[0]
		n.mustPut("a", "1")
		err := n.raft.Recover(consensus.Recovery{
			Server: n.name + ".2", EpochID: [16]byte{7}, CatchUp: func() error { return os.ErrDeadlineExceeded },
			Renamed: func() error { t.Error("renamed"); return nil },
		})
		if err == nil {
			t.Fatal("no error")
		}
		if result := n.mustPut("b", "2"); result.Rev.Epoch != 1 {
			t.Errorf("revision %s; want epoch 1", result.Rev)
		}
	})
}

// A leader that is cut off while it sends a snapshot does not keep who takes it from
// the others.
func TestSilentSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 44, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		c.agree()
		sender, taker := c.others(leader)[0], c.others(leader)[1]
		if err := sender.raft.TakeSnapshot(); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		defer close(stop)
		go sender.raft.SendSilentSnapshot(taker.server, taker.asServer(true).Address, stop)
		<-time.After(time.Second)
		c.net.Partition(ips(sender), ips(leader, taker))
		began := time.Now()
		leader.mustPut("b", "2")
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("writes went on after %v", took)
		}
	})
}
