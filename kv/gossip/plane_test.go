package gossip

import (
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"grapevine/kv"
)

// toyPlane is a plane whose owners only count: a change is an owner and its next
// number. It outlives a restart of its node, as a disk does.
type toyPlane struct {
	self string

	mu     sync.Mutex // guards what is below
	counts map[string]uint32
	made   [][]byte
	news   signal
}

func newToyPlane(self string) *toyPlane { return &toyPlane{self: self, counts: map[string]uint32{}} }

func (p *toyPlane) ID() StreamID             { return OwnStream }
func (p *toyPlane) Changed() <-chan struct{} { return p.news.wait() }

// count makes changes.
func (p *toyPlane) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range n {
		p.counts[p.self]++
		p.made = append(p.made, toyChange(p.self, p.counts[p.self]))
	}
	p.news.fire()
}

func (p *toyPlane) Made() (made [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	made, p.made = p.made, nil
	return made
}

func toyChange(owner string, n uint32) []byte {
	var e encoder
	e.text(owner, maxIDBytes)
	e.u32(n)
	return e.buf
}

func (p *toyPlane) Digest() (sum uint64) {
	for owner, n := range p.state() {
		h := fnv.New64a()
		fmt.Fprint(h, owner, n)
		sum ^= h.Sum64()
	}
	return sum
}

func (p *toyPlane) state() map[string]uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

func (p *toyPlane) Vector() (vector []byte) {
	state := p.state()
	for _, owner := range slices.Sorted(maps.Keys(state)) {
		vector = append(vector, toyChange(owner, state[owner])...)
	}
	return vector
}

func (p *toyPlane) Delta(vector []byte) (iter.Seq[[]byte], bool, error) {
	theirs := map[string]uint32{}
	d := decoder{rest: vector}
	for len(d.rest) > 0 {
		theirs[d.text(maxIDBytes)] = d.u32()
	}
	if d.problem != "" {
		return nil, false, errors.New(d.problem)
	}
	ours, behind := p.state(), false
	for owner, n := range theirs {
		behind = behind || n > ours[owner]
	}
	return func(yield func([]byte) bool) {
		for owner, n := range ours {
			for next := theirs[owner] + 1; next <= n; next++ {
				if !yield(toyChange(owner, next)) {
					return
				}
			}
		}
	}, behind, nil
}

func (p *toyPlane) Apply(changes [][]byte) (fresh [][]byte, gap bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, change := range changes {
		d := decoder{rest: change}
		owner, n := d.text(maxIDBytes), d.u32()
		if problem := d.end(); problem != "" {
			return fresh, gap, errors.New(problem)
		}
		switch ours := p.counts[owner]; {
		case n == ours+1:
			p.counts[owner] = n
			fresh = append(fresh, change)
		case n > ours+1:
			gap = true
		}
	}
	if len(fresh) > 0 {
		p.news.fire()
	}
	return fresh, gap, nil
}

// withPlanes gives each node of a cluster a toy.
func withPlanes(c *cluster) map[*node]*toyPlane {
	planes := map[*node]*toyPlane{}
	change := c.change
	c.change = func(n *node, o *Options) {
		if planes[n] == nil {
			planes[n] = newToyPlane(string(n.id()))
		}
		o.Planes = []Plane{planes[n]}
		if change != nil {
			change(n, o)
		}
	}
	return planes
}

// wantSamePlanes waits until the planes of all running nodes are equal.
func (c *cluster) wantSamePlanes(t tb, planes map[*node]*toyPlane, within time.Duration) time.Duration {
	t.Helper()
	return eventually(t, within, "equal planes", func() bool {
		want := map[string]uint32{}
		for _, n := range c.up() {
			for owner, count := range planes[n].state() {
				want[owner] = max(want[owner], count)
			}
		}
		for _, n := range c.up() {
			if !maps.Equal(planes[n].state(), want) {
				return false
			}
		}
		return true
	})
}

// Whoever makes a change, it is with all after some hops.
func TestPlanesSpreadFromAnyNode(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		planes := withPlanes(c)
		c.start(t, 9)
		<-time.After(10 * time.Second) // all neighbours are connected
		slowest := time.Duration(0)
		for i := range 5 {
			for _, n := range c.nodes {
				planes[n].count(1 + i)
				slowest = max(slowest, c.wantSamePlanes(t, planes, time.Second))
			}
		}
		if slowest > 10*time.Millisecond {
			t.Errorf("a push took %v", slowest)
		}
		before := c.counts()
		for _, n := range c.nodes { // all at once
			planes[n].count(3)
		}
		if took := c.wantSamePlanes(t, planes, time.Second); took > 15*time.Millisecond {
			t.Errorf("pushes of all at once took %v", took)
		}
		<-time.After(5 * time.Second)
		if after := c.counts(); after.PullsServed > before.PullsServed+9 {
			t.Errorf("%d pulls were needed", after.PullsServed-before.PullsServed)
		}
	})
}

// A thousand changes at once are more than goes into one push.
func TestManyChangesOfAPlane(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		planes := withPlanes(c)
		c.start(t, 9)
		<-time.After(10 * time.Second)
		planes[c.nodes[3]].count(maxFlood)
		t.Logf("as many as are kept to be pushed: %v", c.wantSamePlanes(t, planes, 100*time.Millisecond))
		planes[c.nodes[5]].count(3 * maxFlood)
		t.Logf("more: %v", c.wantSamePlanes(t, planes, 2*time.Second))
	})
}

// Packets are lost and repeated, nodes stop and return, halves go on alone: when it is
// over, all have what any of them made.
func TestPlanesConverge(t *testing.T) {
	for _, size := range []int{2, 3, 9} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				planes := withPlanes(c)
				c.start(t, size)
				all := func() {
					for _, n := range c.up() {
						planes[n].count(2)
					}
				}
				c.net.SetLoss(0.2)
				c.net.SetDuplicate(0.2)
				all()
				c.wantSamePlanes(t, planes, 5*time.Second)
				c.nodes[1].stop()
				all()
				c.nodes[1].start(t)
				c.nodes[1].join(t, c.nodes[0])
				c.wantSamePlanes(t, planes, 5*time.Second)
				c.net.SetLoss(0)
				var sides [2][]string
				for i, n := range c.nodes {
					sides[i%2] = append(sides[i%2], n.ip)
				}
				c.net.Partition(sides[0], sides[1])
				all()
				<-time.After(time.Minute)
				all()
				c.net.Heal()
				c.wantMembers(t, size, 40*time.Second)
				t.Logf("after a partition, once all know each other: %v", c.wantSamePlanes(t, planes, 2*time.Second))
			})
		})
	}
}

// What a node announces goes by packets, too, so that connections which stand still after losses delay it less.
func TestPlanePushesGoByPacketsToo(t *testing.T) {
	withoutRace(t)
	inBubble(t, func(t *testing.T, c *cluster) {
		planes := withPlanes(c)
		c.start(t, 5)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		c.wantLinks(t)
		c.net.SetRetransmit(200 * time.Millisecond)
		c.net.SetLoss(0.2)
		fast := 0
		const changes = 50
		for i := range changes {
			planes[c.nodes[i%5]].count(1)
			if c.wantSamePlanes(t, planes, 10*time.Second) < 10*time.Millisecond {
				fast++
			}
			<-time.After(2 * time.Second)
		}
		t.Logf("%d of %d were everywhere within 10 ms at 20 %% loss", fast, changes)
		if fast < changes/2 {
			t.Errorf("%d of %d were fast", fast, changes)
		}
	})
}

// A new node gets everything by one pull, and passes none of it on.
func TestANewNodePullsThePlane(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		planes := withPlanes(c)
		c.start(t, 5)
		for _, n := range c.nodes {
			planes[n].count(500)
		}
		c.wantSamePlanes(t, planes, 5*time.Second)
		<-time.After(10 * time.Second)
		before := c.counts()
		late := c.add(t)
		late.start(t)
		late.join(t, c.nodes[2])
		t.Logf("after %v", c.wantSamePlanes(t, planes, time.Second))
		<-time.After(10 * time.Second)
		after := c.counts()
		if got := after.PushedChanges - before.PushedChanges; got != 0 {
			t.Errorf("%d changes were pushed", got)
		}
		if got := after.Applied - before.Applied; got != 2500 {
			t.Errorf("%d changes were applied, want 2500", got)
		}
	})
}

// Nonsense from a member changes nothing and ends its connection.
func TestHostilePlaneFrames(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		planes := withPlanes(c)
		stranger := c.started(t)
		for name, frame := range map[string][]byte{
			"unknown plane": appendFrame(nil, frameFlood, planeChanges{plane: 9}.encode()),
			"garbage":       appendFrame(nil, frameFlood, planeChanges{plane: OwnStream, list: [][]byte{[]byte("garbage")}}.encode()),
			"a wild count":  appendFrame(nil, frameFlood, []byte{byte(OwnStream), 0xff, 0xff, 0xff, 0xff}),
		} {
			conn := greeted(t, stranger, c.nodes[1], toPush, digest{id: "bad", boot: "1"})
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
			wantClosed(t, name, conn.Conn, time.Second)
		}
		for name, body := range map[string][]byte{"unknown plane": {9}, "no plane": nil, "garbage": {byte(OwnStream), 200}} {
			conn := greeted(t, stranger, c.nodes[1], toPull, digest{id: "bad", boot: "1"})
			if err := conn.write(frameVector, body); err != nil {
				t.Fatal(err)
			}
			if kind, _, err := conn.read(time.Second); err != nil || kind != frameRefusal {
				t.Errorf("%s: got a frame of kind %d, %v", name, kind, err)
			}
			conn.Close()
		}
		planes[c.nodes[0]].count(1)
		c.wantSamePlanes(t, planes, time.Second)
		c.wantUnharmed(t)
	})
}
