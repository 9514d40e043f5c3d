package health

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Monitor runs the checks of all groups.
type Monitor struct {
	logger  *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	peers   Peers         // nil: this node asks for itself alone
	news    chan struct{} // one that waits is enough: all is looked at
	follows time.Time     // since when Follow runs, whose goroutine alone looks at it
	resting atomic.Bool

	// mu guards what follows, and the probes' verdicts and subscribers. It is
	// taken after a group's mu, and nothing is called while it is held.
	mu     sync.Mutex
	probes map[Check]*probe
	turns  map[string]*turn
	// shown are the members that have something to tell, see Each.
	shown map[*Member]struct{}
	// shared are the members whose checks few nodes make for all, and gone what the
	// peers were told of those that are no more.
	shared map[*Member]struct{}
	gone   []Subject
}

// turn lets one check of an address be made at a time, whoever makes it.
type turn struct {
	free    chan struct{} // holds one while somebody asks
	probes  int
	results [2]uint64 // bad and good answers
}

// NewMonitor makes a monitor that does nothing until a group has members. Without
// peers, which are nil then, it makes all checks itself; with them somebody has to
// run Follow.
func NewMonitor(logger *slog.Logger, peers Peers) *Monitor {
	m := &Monitor{
		logger: logger, peers: peers, news: make(chan struct{}, 1),
		probes: map[Check]*probe{}, turns: map[string]*turn{}, shown: map[*Member]struct{}{}, shared: map[*Member]struct{}{},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Close ends all checks and waits for them.
func (m *Monitor) Close() {
	m.mu.Lock()
	m.cancel() // under mu: nothing is started after it
	m.mu.Unlock()
	m.running.Wait()
}

// subscribe has tell called with each new verdict on a question. The verdict that
// is known already is returned; presumed is what to begin with where none is.
func (m *Monitor) subscribe(c Check, dial Dial, presumed verdict, tell func(*subscription, verdict, string)) (s *subscription, v verdict, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.probes[c]
	if p == nil {
		p = m.start(c, dial)
		p.verdict = presumed
	}
	s = &subscription{probe: p, tell: tell}
	p.subscribers = append(slices.Clone(p.subscribers), s) // count reads the old list without the lock
	return s, p.verdict, p.why
}

// start is called with mu.
func (m *Monitor) start(c Check, dial Dial) *probe {
	t := m.turns[c.Address]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		m.turns[c.Address] = t
	}
	t.probes++
	ctx, cancel := context.WithCancel(m.ctx)
	p := &probe{monitor: m, check: c, asker: newAsker(c, dial), turn: t, stop: cancel}
	m.probes[c] = p
	if m.ctx.Err() == nil {
		m.running.Go(func() { p.run(ctx) })
	}
	return p
}

// unsubscribe ends an interest; the probe ends with its last one. Nil is none.
func (m *Monitor) unsubscribe(s *subscription) {
	if s == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := s.probe
	p.subscribers = slices.DeleteFunc(slices.Clone(p.subscribers), func(other *subscription) bool { return other == s })
	if len(p.subscribers) > 0 {
		return
	}
	p.stop()
	delete(m.probes, p.check)
	if p.turn.probes--; p.turn.probes == 0 {
		delete(m.turns, p.check.Address)
	}
}

// counted is called with mu. The counts end with the last check of the address.
func (m *Monitor) counted(address string, good bool) {
	if t := m.turns[address]; t != nil && good {
		t.results[1]++
	} else if t != nil {
		t.results[0]++
	}
}

// Checks calls yield with the addresses that are asked, and how many answers were
// good and bad since that began.
func (m *Monitor) Checks(yield func(address string, good, bad uint64)) {
	type row struct {
		address   string
		good, bad uint64
	}
	m.mu.Lock()
	rows := make([]row, 0, len(m.turns))
	for address, t := range m.turns {
		rows = append(rows, row{address, t.results[1], t.results[0]})
	}
	m.mu.Unlock()
	for _, r := range rows {
		yield(r.address, r.good, r.bad)
	}
}

// Each calls yield with the members of which something is known: those that are
// asked, and those that have been ejected.
func (m *Monitor) Each(yield func(*Member)) {
	m.mu.Lock()
	members := make([]*Member, 0, len(m.shown))
	for member := range m.shown {
		members = append(members, member)
	}
	m.mu.Unlock()
	for _, member := range members {
		yield(member)
	}
}

func (m *Monitor) show(member *Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown[member] = struct{}{}
}

func (m *Monitor) hide(member *Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.shown, member)
}
