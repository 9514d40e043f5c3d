package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

// onDisk is a cluster whose nodes keep files.
func onDisk(t *testing.T, seed uint64, size int) *cluster {
	c := newCluster(t, seed, size)
	c.dir = t.TempDir()
	return c
}

// Nodes on disk come back after all of them were killed, with what was written,
// from snapshot and log.
func TestRestartOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onDisk(t, 11, 3)
		c.change = func(_ *node, o *consensus.Options) { o.Timing.TrailingEntries = 2 }
		defer c.stop()
		c.begin()
		for round := range 3 {
			for n := range 10 {
				c.nodes[n%3].mustPut(kv.Key(fmt.Sprint("k", n)), fmt.Sprint(round))
			}
			if round == 1 {
				if err := c.leader().raft.TakeSnapshot(); err != nil {
					t.Fatal(err)
				}
			}
			c.agree()
			head := c.nodes[0].store.View().Head()
			for _, n := range c.nodes {
				n.kill()
			}
			for _, n := range c.nodes {
				n.start()
			}
			c.leader()
			c.agree()
			if now := c.nodes[0].store.View().Head(); now != head {
				t.Fatalf("round %d: the head was %+v and is %+v", round, head, now)
			}
		}
	})
}

// A store that was lost is restored from raft's snapshot and log.
func TestStoreIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onDisk(t, 12, 3)
		c.change = func(_ *node, o *consensus.Options) { o.Timing.TrailingEntries = 1 }
		defer c.stop()
		c.begin()
		for n := range 10 {
			c.nodes[0].mustPut(kv.Key(fmt.Sprint("before", n)), "1")
		}
		n := c.nodes[2]
		c.agree()
		if err := n.raft.TakeSnapshot(); err != nil {
			t.Fatal(err)
		}
		c.nodes[0].mustPut("after", "1")
		c.agree()
		head := n.store.View().Head()
		n.kill()
		if err := os.Remove(filepath.Join(n.path(), "kv.db")); err != nil {
			t.Fatal(err)
		}
		n.start()
		c.agree()
		if now := n.store.View().Head(); now != head || n.store.View().Len() != 11 {
			t.Errorf("the head was %+v and is %+v, with %d keys", head, now, n.store.View().Len())
		}
	})
}

// Readers see what raft has committed before the store's file has it. If all nodes
// lose that tail of their files at once, nothing of what was acknowledged is gone: not
// a write, not the id of a request, and nobody has to be taken in anew.
func TestTailOfTheStoreIsLost(t *testing.T) {
	for _, size := range []int{1, 3} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { loseTails(t, onDisk(t, 17, size)) })
		})
	}
}

func loseTails(t *testing.T, c *cluster) {
	defer c.stop()
	c.begin()
	c.leader().mustPut("a", "1")
	c.agree()
	files := map[*node][]byte{}
	for _, n := range c.nodes {
		n.kill()
		file, err := os.ReadFile(filepath.Join(n.path(), "kv.db"))
		if err != nil {
			t.Fatal(err)
		}
		files[n] = file
	}
	for _, n := range c.nodes {
		n.start()
	}
	txn := kv.Txn{ID: "once", Then: []kv.Op{kv.Put("b", []byte("1"))}}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	done, err := c.leader().raft.Propose(ctx, txn)
	if err != nil {
		t.Fatal(err)
	}
	c.leader().mustPut("c", "1")
	c.agree()
	head := c.leader().store.View().Head()
	for _, n := range c.nodes {
		n.kill()
		if err := os.WriteFile(filepath.Join(n.path(), "kv.db"), files[n], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.nodes {
		n.start()
	}
	again, err := c.leader().raft.Propose(ctx, txn)
	if err != nil || again.Rev != done.Rev {
		t.Errorf("asked again: revision %s, %v; want %s", again.Rev, err, done.Rev)
	}
	c.agree()
	if now := c.leader().store.View().Head(); now != head {
		t.Errorf("the head was %+v and is %+v", head, now)
	}
}

// A log that was lost, or is damaged, took the votes with it: the node is told to
// rejoin, and does, as a learner under a new server id, with what its store has.
func TestLogIsLost(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"lost": os.RemoveAll,
		"damaged": func(dir string) error {
			path := filepath.Join(dir, "raft.db")
			file, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for at := 0; at < 8192; at++ {
				file[at] ^= 0x55
			}
			return os.WriteFile(path, file, 0o600)
		},
		"older than the store": func(dir string) error { return replaceLog(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := onDisk(t, 13, 3)
				defer c.stop()
				c.begin()
				n := c.nodes[2]
				c.leader().mustPut("a", "1")
				c.agree()
				n.kill()
				raftDir := filepath.Join(n.path(), "raft")
				if name == "older than the store" {
					if err := os.CopyFS(raftDir+".older", os.DirFS(raftDir)); err != nil {
						t.Fatal(err)
					}
					n.start()
					c.leader().mustPut("b", "2")
					c.agree()
					n.kill()
				}
				if err := harm(raftDir); err != nil {
					t.Fatal(err)
				}
				if err := n.tryStart(); !errors.Is(err, consensus.ErrRejoin) {
					t.Fatalf("got %v; want ErrRejoin", err)
				}
				if _, err := os.Stat(raftDir); err == nil {
					if _, err := consensus.Archive(raftDir); err != nil {
						t.Fatal(err)
					}
				}
				n.server = n.name + ".2"
				n.start()
				leader := c.leader()
				change := func(kind consensus.ChangeKind, server string) {
					t.Helper()
					_, index := leader.raft.Configuration()
					step := consensus.Change{Kind: kind, Server: server, Address: n.asServer(false).Address}
					if err := leader.raft.Change(t.Context(), step, index); err != nil {
						t.Fatal(err)
					}
				}
				change(consensus.Remove, n.name)
				change(consensus.AddLearner, n.server)
				leader.mustPut("c", "3")
				c.agree()
				if role := n.raft.Role(); role != consensus.RoleLearner {
					t.Errorf("its role is %s", role)
				}
			})
		})
	}
}

func replaceLog(dir string) error {
	return errors.Join(os.RemoveAll(dir), os.Rename(dir+".older", dir))
}

// A node that pulled the store before it joined raft keeps what it has and skips
// what it is told again; and it comes back after a restart in the midst of that.
func TestJoinsAheadOfTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onDisk(t, 14, 1)
		defer c.stop()
		c.begin()
		leader := c.nodes[0]
		for n := range 5 {
			leader.mustPut(kv.Key(fmt.Sprint("k", n)), "1")
		}
		joiner := c.add()
		if err := joiner.openStore(); err != nil {
			t.Fatal(err)
		}
		if err := joiner.store.Restore(leader.store.Snapshot()); err != nil { // a pull
			t.Fatal(err)
		}
		epoch := leader.store.View().Head()
		joiner.start()
		step := consensus.Change{Kind: consensus.AddLearner, Server: joiner.server, Address: joiner.asServer(false).Address}
		if err := leader.raft.Change(t.Context(), step, 0); err != nil {
			t.Fatal(err)
		}
		c.eventually("it is in raft", joiner.raft.InRaft)
		joiner.kill()
		joiner.start()
		leader.mustPut("later", "1")
		c.agree()
		if rev := joiner.store.View().Rev(); rev.Rev != epoch.Rev.Rev+1 {
			t.Errorf("it is at %s", rev)
		}
		if commits, err := joiner.store.History("", kv.Rev{}, 0); err != nil || len(commits) == 0 {
			t.Errorf("its history is %d commits, %v", len(commits), err)
		}
	})
}

// Two of three disks are gone for good: the third goes on alone, in a new epoch,
// and others join it.
func TestRecoverAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onDisk(t, 15, 3)
		defer c.stop()
		c.begin()
		c.leader().mustPut("a", "1")
		c.agree()
		for _, n := range c.nodes {
			n.kill()
		}
		survivor := c.nodes[1]
		c.nodes = []*node{survivor}
		if err := survivor.openStore(); err != nil {
			t.Fatal(err)
		}
		if _, err := consensus.Archive(filepath.Join(survivor.path(), "raft")); err != nil {
			t.Fatal(err)
		}
		if err := survivor.store.NewEpoch([16]byte{1}, nil); err != nil {
			t.Fatal(err)
		}
		survivor.server += ".2"
		survivor.start()
		if err := survivor.raft.Bootstrap(survivor.asServer(true)); err != nil {
			t.Fatal(err)
		}
		result := survivor.mustPut("b", "2")
		if result.Rev.Epoch != 2 || result.Rev.Rev != 2 {
			t.Errorf("revision %s; want 2.2", result.Rev)
		}
	})
}

// When the store's disk is full the node leaves the cluster to the others, and
// comes back by itself when there is space.
func TestFullDisk(t *testing.T) {
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a small tmpfs can't be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(small, 0); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := onDisk(t, 16, 3)
		defer c.stop()
		full := c.nodes[0]
		if err := os.Symlink(small, full.path()); err != nil {
			t.Fatal(err)
		}
		// raft's log is elsewhere: it is the store that can't be written.
		c.change = func(n *node, o *consensus.Options) { o.Dir = filepath.Join(c.dir, "raft-"+n.name) }
		c.begin()
		c.leader().mustPut("a", "1")
		filler := filepath.Join(small, "filler")
		if err := os.WriteFile(filler, make([]byte, 61<<20), 0o600); !errors.Is(err, syscall.ENOSPC) && err != nil {
			t.Fatal(err)
		}
		other := c.nodes[1]
		for n := range 6 {
			other.mustPut(kv.Key(fmt.Sprint("large/", n)), string(make([]byte, 200<<10)))
		}
		c.eventually("the problem", func() bool { return errors.Is(full.raft.Problem(), kv.ErrDiskFull) })
		other.mustPut("b", "2")
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		for n := range 6 {
			other.mustPut(kv.Key(fmt.Sprint("large/", n)), "")
		}
		c.eventually("no problem", func() bool { return full.raft.Problem() == nil })
		c.agree()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		if _, err := full.raft.Read(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Hand over, ask for it by name, and shut down: another leads at once.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 17, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		to := c.others(leader)[0]
		began := time.Now()
		if err := leader.raft.TransferLeadership(t.Context(), to.server); err != nil {
			t.Fatal(err)
		}
		if now := c.leader(to); now != to {
			t.Error("another leads")
		}
		if took := time.Since(began); took > 250*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		to.mustPut("b", "2")
		// One of the others is dead: the other one is picked.
		dead, alive := c.others(to)[0], c.others(to)[1]
		<-time.After(time.Second) // all are known to be caught up
		dead.host.PowerOff()      // it refuses nothing, it is silent
		dead.kill()
		<-time.After(4 * time.Second) // longer than a server counts as heard of
		began = time.Now()
		to.end(t.Context())
		if now := c.leader(alive); now != alive {
			t.Error("nobody leads")
		}
		if took := time.Since(began); took > 250*time.Millisecond {
			t.Errorf("the shutdown and the next leader took %v", took)
		}
		if err := alive.raft.TransferLeadership(t.Context(), ""); err == nil {
			t.Error("nobody is there to take over, and it succeeded")
		}
	})
}
