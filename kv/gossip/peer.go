package gossip

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"grapevine/kv"
)

// Peer is this node among the members.
type Peer struct {
	o         Options
	log       *slog.Logger
	keys      *keyring
	list      swim
	transport *transport
	members   *members
	alarms    alarms
	counters  counters

	ctx   context.Context // over when the peer is closed
	stop  context.CancelFunc
	group sync.WaitGroup // everything the peer started
	close sync.Once

	inbox     chan []byte   // messages of memberlist
	news      signal        // a stream changed
	refreshed signal        // what the Options' functions say changed
	taking    chan struct{} // has room for the one who applies or restores
	greeting  chan struct{} // has room for connections that have not said who they are
	connected chan struct{} // has room for connections of others
	puller    *puller
	courses   []*course // of the planes
	held      held
	rejoins   rejoins
	listing   chan struct{} // has room for the one who changes or closes memberlist

	mu      sync.Mutex // guards what is below
	meta    Meta
	report  report
	links   map[string]*link // by the full name of the member at the other end
	guests  map[NodeID]int   // how many connections of others stand here
	pulling map[NodeID]int   // who is served pulls, and how many
	serving int              // the sum of them

	closed bool // nothing is to be started any more

	reported signal // report changed
}

// Sizes of what waits or runs at once.
const (
	// inboxSize is how many messages of memberlist may wait. More are lost, and the
	// next head says the same again.
	inboxSize = 1024
	// maxPullsServed is how many pulls are served at once; others are told to come
	// again. A snapshot costs memory and the network of the node that gives it.
	maxPullsServed = 4
	// maxGreeting is how many connections may be without a hello, maxConnected how
	// many others may have here in all, and maxOfOne how many of them one node. It needs one to push, and up to
	// four to pull; while it connects anew the former ones may still stand.
	maxGreeting  = 64
	maxConnected = 2048
	maxOfOne     = 12
)

// Open starts a peer, which is alone until it joins others. What Options gave it is
// closed by Close, or by Open when it fails.
func Open(o Options) (*Peer, error) {
	p, err := newPeer(o)
	if err != nil {
		o.close()
		return nil, err
	}
	p.transport = newTransport(&p.o, &p.counters)
	p.list, err = p.o.list(p)
	if err != nil {
		p.stop()
		p.transport.Shutdown()
		p.o.Spread.Listener.Close()
		return nil, err
	}
	p.start()
	return p, nil
}

func newPeer(o Options) (*Peer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.fill()
	keys, err := newKeyring(o.Keys)
	if err != nil {
		return nil, err
	}
	p := &Peer{
		o: o, log: o.Logger.With("component", "gossip"), keys: keys, meta: o.Meta,
		inbox:     make(chan []byte, inboxSize),
		taking:    make(chan struct{}, 1),
		greeting:  make(chan struct{}, maxGreeting),
		connected: make(chan struct{}, maxConnected),
		listing:   make(chan struct{}, 1),
		links:     map[string]*link{},
		guests:    map[NodeID]int{},
		pulling:   map[NodeID]int{},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.members = &members{log: p.log, entries: map[string]*entry{}, shunned: map[NodeID]bool{}}
	p.alarms = alarms{log: p.log, changed: &p.members.changed, raised: &p.counters.alarms, list: map[alarmKey]*Alarm{}}
	p.puller = newPuller(p)
	for _, plane := range o.Planes {
		p.courses = append(p.courses, &course{Plane: plane})
	}
	p.rejoins.load(o.Keeper)
	return p, nil
}

// start begins everything that goes on until Close.
func (p *Peer) start() {
	p.group.Go(p.readInbox)
	p.group.Go(p.sendHeads)
	p.group.Go(p.accept)
	p.group.Go(p.keepLinks)
	p.group.Go(p.puller.run)
	p.group.Go(p.puller.runPlanes)
	p.group.Go(p.rejoin)
	p.group.Go(p.remember)
	p.group.Go(p.tidy)
	p.group.Go(p.tellLeader)
	for _, s := range p.o.Streams {
		p.group.Go(func() { p.watch(s) })
	}
	for _, c := range p.courses {
		p.group.Go(func() { p.watchPlane(c) })
	}
}

// Close ends the peer without a word to the others, who will find it dead; see
// Leave. memberlist ends its last probe by itself within seconds.
func (p *Peer) Close() {
	p.close.Do(func() {
		p.stop()
		p.o.Spread.Listener.Close()
		p.listing <- struct{}{} // for good
		p.list.Shutdown()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.group.Wait()
	})
}

// spawn runs f in a goroutine that Close waits for; not after Close.
func (p *Peer) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.group.Go(f)
	}
	return !p.closed
}

// lockList waits for the right to change memberlist, which allows one change at a
// time and none when it is shut down. It reports false when the peer is closed.
func (p *Peer) lockList() bool {
	select {
	case p.listing <- struct{}{}:
	case <-p.ctx.Done():
		return false
	}
	if p.ctx.Err() != nil {
		p.unlockList()
		return false
	}
	return true
}

func (p *Peer) unlockList() { <-p.listing }

// Members are all nodes that are known, this one included, in the order of their
// ids. Nodes that are gone stay in the list for a while.
func (p *Peer) Members() []Member { return p.members.all() }

// Changed returns a channel that is closed when Members or Alarms change. To miss
// nothing, take the channel first.
func (p *Peer) Changed() <-chan struct{} { return p.members.changed.wait() }

// Alarms are what is wrong between this node and others now, in the order in which
// it was noticed.
func (p *Peer) Alarms() []Alarm { return p.alarms.all() }

// Refresh tells the peer that what its Options' functions say has changed: another
// leader, or the raft configuration.
func (p *Peer) Refresh() {
	p.refreshed.fire()
	wake(p.puller.poke)
}

// SetMeta changes what this node says of itself; its id stays.
func (p *Peer) SetMeta(m Meta) error {
	m.ID = p.o.Meta.ID
	if err := m.check(); err != nil {
		return err
	}
	p.mu.Lock()
	p.meta = m
	p.mu.Unlock()
	if !p.lockList() {
		return net.ErrClosed
	}
	defer p.unlockList()
	// It only waits for the update to be sent on, which may as well go on later.
	p.list.UpdateNode(time.Millisecond)
	return nil
}

// watch tells of a stream's changes to all who wait for any news.
func (p *Peer) watch(s Stream) {
	for {
		changed := s.Changed()
		p.news.fire()
		select {
		case <-changed:
		case <-p.ctx.Done():
			return
		}
	}
}

// watchPlane passes on what this node made.
func (p *Peer) watchPlane(c *course) {
	for {
		changed := c.Changed()
		c.flood.add("", c.Made(), false)
		c.remember()
		p.news.fire()
		select {
		case <-changed:
		case <-p.ctx.Done():
			return
		}
	}
}

// tidyPause is how often what is long gone is looked for.
const tidyPause = time.Minute

func (p *Peer) tidy() {
	for pause(p.ctx.Done(), tidyPause) {
		now := time.Now()
		p.members.tidy(now)
		p.alarms.expire(now)
	}
}

func (p *Peer) stream(id StreamID) Stream {
	i := slices.IndexFunc(p.o.Streams, func(s Stream) bool { return s.ID() == id })
	if i < 0 {
		return nil
	}
	return p.o.Streams[i]
}

func (p *Peer) course(id StreamID) *course {
	for _, c := range p.courses {
		if c.ID() == id {
			return c
		}
	}
	return nil
}

// self is this node as a member.
func (p *Peer) self() Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Member{ID: p.o.Meta.ID, Name: p.meta.Name, Role: p.meta.Role, boot: p.o.Boot}
}

func (p *Peer) standing() standing {
	return standing{inRaft: p.o.InRaft(), ownQuorum: p.o.OwnQuorum(), leads: p.o.Leads()}
}

// digest is how far this node is.
func (p *Peer) digest() digest {
	p.mu.Lock()
	d := digest{id: p.o.Meta.ID, boot: p.o.Boot, report: p.report}
	p.mu.Unlock()
	d.members, _ = p.members.sum()
	for _, s := range p.o.Streams {
		d.heads = append(d.heads, streamHead{s.ID(), s.Head()})
	}
	for _, c := range p.courses {
		d.planes = append(d.planes, planeDigest{c.ID(), c.Digest()})
	}
	return d
}

// Report says what this node serves: the revision, the name of its table, and why it
// is not a later one, nil if there is nothing in the way. The leader is told at
// once, the others by heads.
func (p *Peer) Report(rev kv.Rev, tableHash string, problem error) {
	applied := Applied{Rev: rev, TableHash: tableHash}
	if problem != nil {
		applied.Err = problem.Error()
	}
	p.mu.Lock()
	p.report = report{seq: p.report.seq + 1, applied: applied}
	r := p.report
	p.mu.Unlock()
	p.members.reported(fullName(p.o.Meta.ID, p.o.Boot), r)
	p.reported.fire()
}

// Applied is what each node that is known says it serves, this one included.
func (p *Peer) Applied() map[NodeID]Applied { return p.members.applied() }

// AppliedChanged returns a channel that is closed when Applied changes.
func (p *Peer) AppliedChanged() <-chan struct{} { return p.members.appliedChanged.wait() }
