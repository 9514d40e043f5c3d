package gossip

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"grapevine/kv"
)

// base is a store with a few signed revisions, and copies of it that go on on
// their own.
type base struct {
	first   *kv.Snapshot // at revision 1
	commits []kv.Commit  // the revisions from 2 on
}

const baseRevs = 5

func newBase(t *testing.T) base {
	t.Helper()
	n := &node{store: newStore(t)}
	b := base{}
	n.write(t, kv.Put("k1", []byte("1")))
	b.first = n.store.Snapshot()
	for i := 2; i <= baseRevs; i++ {
		b.commits = append(b.commits, n.write(t, kv.Put(kv.Key(fmt.Sprintf("k%d", i)), []byte("base"))))
	}
	return b
}

func newStore(t tb) *kv.Store {
	t.Helper()
	s, err := kv.Open(kv.Options{HistoryRevs: historyRevs})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// at is the base up to a revision, 0 for an empty store.
func (b base) at(rev int) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		if rev == 0 {
			return
		}
		if err := n.store.Restore(b.first); err != nil {
			t.Fatal(err)
		}
		if err := n.store.Merge(b.commits[:rev-1]...); err != nil {
			t.Fatal(err)
		}
	}
}

// then does more after another preparation.
func then(before func(*testing.T, *node), more ...func(*testing.T, *node)) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		before(t, n)
		for _, f := range more {
			f(t, n)
		}
	}
}

func writes(value string) func(*testing.T, *node) {
	return func(t *testing.T, n *node) { n.write(t, kv.Put("fork", []byte(value))) }
}

func unsigned(t *testing.T, n *node) {
	commit := n.resolve(t, kv.Put("fork", []byte("unsigned")))
	commit.Signature = [64]byte{}
	if err := n.store.Merge(commit); err != nil {
		t.Fatal(err)
	}
}

func newEpoch(t *testing.T, n *node) {
	var id [16]byte
	rand.Read(id[:])
	if err := n.store.NewEpoch(id, signBytes); err != nil {
		t.Fatal(err)
	}
}

func newEpochUnsigned(t *testing.T, n *node) {
	var id [16]byte
	rand.Read(id[:])
	if err := n.store.NewEpoch(id, nil); err != nil {
		t.Fatal(err)
	}
}

// The rules of merging, one row each: two nodes that both push, of which one tests
// what it may take from the other.
func TestMergeRules(t *testing.T) {
	b := newBase(t)
	plain, raft, follower, leader := standing{}, standing{inRaft: true}, standing{ownQuorum: true}, standing{inRaft: true, ownQuorum: true, leads: true}
	for _, tt := range []struct {
		name         string
		ours, theirs func(*testing.T, *node)
		standing     standing
		takes        bool
		alarm        AlarmKind // 0 is none
	}{
		{"equal", b.at(3), b.at(3), plain, false, 0},
		{"older", b.at(5), b.at(3), plain, false, 0},
		{"older with another hash", b.at(5), then(b.at(2), writes("other")), plain, false, Diverged},
		{"older with another hash, unsigned", b.at(5), then(b.at(2), unsigned), plain, false, Forged},
		{"next", b.at(3), b.at(4), plain, true, 0},
		{"next, with a quorum", b.at(3), b.at(4), follower, true, 0},
		{"next, in raft", b.at(3), b.at(4), raft, false, 0},
		{"next, unsigned", b.at(3), then(b.at(3), unsigned), plain, false, Forged},
		{"next, after another hash", then(b.at(2), writes("ours")), b.at(4), plain, false, Diverged},
		{"after a gap", b.at(1), b.at(5), plain, true, 0},
		{"ahead of the leader", b.at(3), b.at(4), leader, false, LeaderBehind},
		{"ahead of the leader, unsigned", b.at(3), then(b.at(3), unsigned), leader, false, Forged},
		{"same revision, another hash", then(b.at(3), writes("ours")), then(b.at(3), writes("theirs")), plain, false, Diverged},
		{"same revision, another hash, in raft", then(b.at(3), writes("ours")), then(b.at(3), writes("theirs")), raft, false, Diverged},
		{"same revision, another hash, unsigned", b.at(4), then(b.at(3), unsigned), plain, false, Forged},
		{"empty here", b.at(0), b.at(3), plain, true, 0},
		{"empty here, with a quorum", b.at(0), b.at(3), follower, true, 0},
		{"empty here, in raft", b.at(0), b.at(3), raft, false, 0},
		{"empty here, unsigned", b.at(0), then(b.at(0), unsigned), plain, false, Forged},
		{"empty there", b.at(3), b.at(0), plain, false, 0},
		{"lower epoch", then(b.at(3), newEpoch), b.at(5), plain, false, 0},
		{"higher epoch", b.at(5), then(b.at(3), newEpoch), plain, true, 0},
		{"higher epoch, with a quorum", b.at(5), then(b.at(3), newEpoch), follower, false, EpochAhead},
		{"higher epoch, in raft", b.at(5), then(b.at(3), newEpoch), raft, false, EpochAhead},
		{"higher epoch, the leader", b.at(5), then(b.at(3), newEpoch), leader, false, EpochAhead},
		{"higher epoch, unsigned", b.at(5), then(b.at(3), newEpochUnsigned), plain, false, Forged},
		{"rival epoch", then(b.at(3), newEpoch), then(b.at(3), newEpoch), plain, false, Rivals},
		{"rival epoch, ahead", then(b.at(3), newEpoch), then(b.at(3), newEpoch, writes("more")), plain, false, Rivals},
		{"rival epoch, unsigned", then(b.at(3), newEpoch), then(b.at(3), newEpochUnsigned), plain, false, Forged},
	} {
		for _, pushed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pushed %v", tt.name, pushed), func(t *testing.T) {
				inBubble(t, func(t *testing.T, c *cluster) {
					testRule(t, c, pushed, tt.ours, tt.theirs, tt.standing, tt.takes, tt.alarm)
				})
			})
		}
	}
}

// testRule lets a node hear of another one's stream by heads, or by a push of what
// the other has done since it connected.
func testRule(t *testing.T, c *cluster, pushed bool, ours, theirs func(*testing.T, *node), s standing, takes bool, alarm AlarmKind) {
	c.change = func(_ *node, o *Options) {
		if !pushed {
			o.Neighbours = func(Neighbourhood) []NodeID { return nil }
		}
	}
	other, us := c.add(t), c.add(t)
	other.inRaft.Store(true) // it takes nothing
	other.leads.Store(false)
	us.inRaft.Store(s.inRaft)
	us.quorum.Store(s.ownQuorum)
	us.leads.Store(s.leads)
	ours(t, us)
	theirs(t, other)
	before := us.store.View().Head()
	other.start(t)
	us.start(t)
	us.join(t, other)
	if takes {
		c.wantSame(t, 5*time.Second)
	} else {
		never(t, 5*time.Second, "it took something", func() bool { return us.store.View().Head() != before })
	}
	wantAlarm(t, us, other, alarm)
}

func wantAlarm(t *testing.T, at, about *node, want AlarmKind) {
	t.Helper()
	alarms := at.peer.Alarms()
	if want == 0 {
		if len(alarms) != 0 {
			t.Errorf("alarms: got %+v, want none", alarms)
		}
		return
	}
	got := slices.IndexFunc(alarms, func(a Alarm) bool { return a.Kind == want })
	if got < 0 || len(alarms) != 1 {
		t.Fatalf("alarms: got %+v, want %v alone", alarms, want)
	}
	a := alarms[got]
	if a.Node != about.id() || a.Role != about.role || a.Stream != OperatorStream || a.Count < 2 {
		t.Errorf("alarm: got %+v", a)
	}
	if counted := at.peer.Counts().AlarmsRaised; counted < uint64(a.Count) {
		t.Errorf("%d alarms are counted, %d were noticed", counted, a.Count)
	}
}

// An alarm is logged once, however often it is noticed, and is over when the node
// agrees again.
func TestAlarmsAreLoggedOnceAndSettle(t *testing.T) {
	b := newBase(t)
	inBubble(t, func(t *testing.T, c *cluster) {
		logged := recordLog(c)
		other, us := c.add(t), c.add(t)
		other.inRaft.Store(true)
		other.leads.Store(false)
		then(b.at(3), writes("ours"))(t, us)
		then(b.at(3), writes("theirs"))(t, other)
		other.start(t)
		us.start(t)
		us.join(t, other)
		eventually(t, 10*time.Second, "ten times noticed", func() bool {
			alarms := us.peer.Alarms()
			return len(alarms) == 1 && alarms[0].Count >= 10
		})
		if got := logged.count("node=onenode01", "msg=alarm ", `kind="histories diverged"`); got != 1 {
			t.Errorf("logged %d times", got)
		}
		// An operator decides: the other node is given our state.
		if err := other.store.Restore(us.store.Snapshot()); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "no alarm", func() bool { return len(us.peer.Alarms()) == 0 })
		if got := logged.count("node=onenode01", `msg="alarm is over"`); got != 1 {
			t.Errorf("its end is logged %d times", got)
		}
	})
}

func TestForgedAlarmsEndWithTime(t *testing.T) {
	b := newBase(t)
	inBubble(t, func(t *testing.T, c *cluster) {
		other, us := c.add(t), c.add(t)
		other.inRaft.Store(true)
		b.at(3)(t, us)
		then(b.at(3), unsigned)(t, other)
		other.start(t)
		us.start(t)
		us.join(t, other)
		eventually(t, 10*time.Second, "an alarm", func() bool { return len(us.peer.Alarms()) == 1 })
		other.stop()
		<-time.After(forgedFor / 2)
		if len(us.peer.Alarms()) != 1 {
			t.Error("it is gone too soon")
		}
		<-time.After(forgedFor)
		if got := us.peer.Alarms(); len(got) != 0 {
			t.Errorf("still there: %+v", got)
		}
	})
}

// What Operators gives and takes, without a network.
func TestOperatorsStream(t *testing.T) {
	b := newBase(t)
	made := func(prepare func(*testing.T, *node)) *node {
		n := &node{store: newStore(t)}
		prepare(t, n)
		return n
	}
	full, behind, empty := made(b.at(5)), made(b.at(2)), made(b.at(0))
	fork := made(then(b.at(2), writes("fork")))
	stream := func(n *node) Stream { return Operators(n.store, verify) }

	list, upTo, err := stream(full).Delta(stream(behind).Head(), 1<<20)
	if err != nil || len(list) != 3 || relate(stream(full).Head(), upTo) != equal {
		t.Fatalf("delta: %d changes up to %s, %v", len(list), upTo.Rev, err)
	}
	if one, upTo, err := stream(full).Delta(stream(behind).Head(), 1); err != nil || len(one) != 1 || upTo.Rev.Rev != 3 {
		t.Errorf("a small delta: %d changes up to %s, %v", len(one), upTo.Rev, err)
	}
	for name, tt := range map[string]struct {
		at, since *node
		want      error
	}{
		"fork":   {full, fork, kv.ErrDiverged},
		"ahead":  {behind, full, kv.ErrFuture},
		"rival":  {full, made(then(b.at(2), newEpoch)), kv.ErrDiverged},
		"itself": {full, full, nil},
	} {
		if list, _, err := stream(tt.at).Delta(stream(tt.since).Head(), 1<<20); !errors.Is(err, tt.want) || len(list) != 0 {
			t.Errorf("%s: got %d changes, %v, want %v", name, len(list), err, tt.want)
		}
	}
	if err := stream(behind).Apply(list[1:]); !errors.Is(err, kv.ErrGap) {
		t.Errorf("a gap: got %v", err)
	}
	if err := stream(fork).Apply(list); !errors.Is(err, kv.ErrDiverged) {
		t.Errorf("a fork: got %v", err)
	}
	bad := b.commits[1]
	bad.Signature[0] ^= 1
	if err := stream(behind).Apply([][]byte{kv.AppendCommit(nil, bad)}); !errors.Is(err, ErrForged) {
		t.Errorf("a bad signature: got %v", err)
	}
	if err := stream(behind).Apply([][]byte{[]byte("garbage")}); err == nil {
		t.Error("garbage was applied")
	}
	if err := stream(behind).Apply(list); err != nil || stream(behind).Head() != stream(full).Head() {
		t.Errorf("apply: got %s, %v", stream(behind).Head().Rev, err)
	}
	if err := stream(behind).Apply(list); err != nil {
		t.Errorf("apply again: %v", err)
	}
	restores(t, stream(full), stream(empty))
	_, write := stream(made(then(b.at(5), unsigned))).Snapshot()
	var file bytes.Buffer
	if err := write(&file); err != nil {
		t.Fatal(err)
	}
	if err := stream(empty).Restore(&file, func(kv.Head) error { return nil }); !errors.Is(err, ErrForged) {
		t.Errorf("an unsigned snapshot: got %v", err)
	}
}

func restores(t *testing.T, from, to Stream) {
	t.Helper()
	head, write := from.Snapshot()
	var file bytes.Buffer
	if err := write(&file); err != nil {
		t.Fatal(err)
	}
	unwelcome := errors.New("unwelcome")
	if err := to.Restore(bytes.NewReader(file.Bytes()), func(kv.Head) error { return unwelcome }); !errors.Is(err, unwelcome) {
		t.Errorf("unwelcome: got %v", err)
	}
	if err := to.Restore(bytes.NewReader(file.Bytes()[:file.Len()/2]), func(kv.Head) error { return nil }); err == nil {
		t.Error("half a snapshot was restored")
	}
	if !isBlank(to.Head()) {
		t.Fatal("a failed restore changed something")
	}
	if err := to.Restore(bytes.NewReader(file.Bytes()), func(kv.Head) error { return nil }); err != nil || to.Head() != head {
		t.Errorf("restore: got %s, %v", to.Head().Rev, err)
	}
}

// An edge with a certificate may know a genuine head; its snapshot is not believed.
func TestSnapshotsOfEdgesAreNotBelieved(t *testing.T) {
	b := newBase(t)
	for _, tt := range []struct {
		name  string
		voter bool // what the certificate says
		takes bool
	}{{"claims to be a voter", false, false}, {"is a voter", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				other, us := c.add(t), c.add(t)
				other.inRaft.Store(true)
				c.change = func(n *node, o *Options) {
					o.Identify = func(conn net.Conn) (NodeID, bool, error) {
						if addressOf(conn) == other.ip {
							return other.id(), tt.voter, nil
						}
						return us.id(), false, nil
					}
				}
				b.at(5)(t, other)
				other.start(t)
				us.start(t)
				us.join(t, other)
				if tt.takes {
					c.wantSame(t, 5*time.Second)
				} else {
					never(t, 10*time.Second, "it took a snapshot", func() bool { return !isBlank(us.store.View().Head()) })
				}
			})
		})
	}
}

// Edges that are behind what another edge remembers ask a voter.
func TestEdgesSendWhoIsTooFarBehindToAVoter(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 3)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 5*time.Second)
		edge, late := c.nodes[1], c.nodes[2]
		late.stop()
		for i := range 5 {
			c.leader().write(t, kv.Put("b", fmt.Append(nil, i)))
		}
		c.wantSame(t, 5*time.Second)
		if err := edge.store.Restore(edge.store.Snapshot()); err != nil { // its history begins here
			t.Fatal(err)
		}
		// The late one hears of the others from the edge only.
		c.net.Block(c.leader().ip, late.ip)
		c.net.Block(late.ip, c.leader().ip)
		late.start(t)
		late.join(t, edge)
		never(t, 3*time.Second, "an edge gave a snapshot", func() bool { return late.store.View().Head() == edge.store.View().Head() })
		c.net.Heal()
		c.wantSame(t, 10*time.Second)
	})
}
