package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// seedsAtOnce is how many seeds a joining node asks: one alone may know only half
	// of those who join at the same time.
	seedsAtOnce = 3
	// contactsAtOnce is how many peers are contacted at the same time.
	contactsAtOnce = 8
	// maxContacts is how many peers are tried in one round: all that are remembered
	// and some seeds. Rounds end before the next begins, even if nobody answers.
	maxContacts = 24
	// departures is how often, and departurePause how far apart, all members are told
	// that a node left: each of them is a packet that may be lost.
	departures     = 3
	departurePause = 100 * time.Millisecond
	// settling is how long a change of the members may be under way to the others.
	settling = time.Second
	// compareLeast is the time between two exchanges of members with who sees others
	// alive; more with many members, since each is told of all.
	compareLeast     = time.Second
	comparePerMember = 20 * time.Millisecond
	// gossiped is how many members hear it from each member that it is new to.
	gossiped = 3
)

// ErrLeft is returned by Join after Leave.
var ErrLeft = errors.New("this node has left the cluster")

// Join makes contact with a cluster by some of its members, as host:port. It tries
// until one answers or ctx is over. The seeds stay: when members are missing later,
// they are asked again.
func (p *Peer) Join(ctx context.Context, seeds ...string) error {
	p.rejoins.addSeeds(seeds)
	pauses := backoff{least: 500 * time.Millisecond, most: 10 * time.Second}
	for {
		some := shuffled(seeds)
		err := p.contact(some[:min(len(some), seedsAtOnce)])
		switch {
		case p.rejoins.left.Load():
			return ErrLeft
		case err == nil && len(p.members.others(p.o.Meta.ID)) > 0:
			return nil
		case err == nil:
			err = errors.New("only this node answers there")
		}
		p.log.Warn("no seed answers", "seeds", len(seeds), "err", err)
		timer := time.NewTimer(pauses.next())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("join: %w; last: %w", ctx.Err(), err)
		case <-p.ctx.Done():
			timer.Stop()
			return net.ErrClosed
		}
	}
}

// contact exchanges members with peers, and gives an error if none answers.
func (p *Peer) contact(addresses []string) error {
	places := make(chan struct{}, contactsAtOnce)
	results := make(chan error, len(addresses))
	for _, address := range addresses {
		if !p.spawn(func() {
			places <- struct{}{}
			defer func() { <-places }()
			results <- p.contactOne(address)
		}) {
			results <- net.ErrClosed
		}
	}
	var problems error
	succeeded := false
	for range addresses {
		err := <-results
		problems = errors.Join(problems, err)
		succeeded = succeeded || err == nil
	}
	if succeeded {
		return nil
	}
	return problems
}

func (p *Peer) contactOne(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.ctx, helloTime)
	defer cancel()
	ips := []string{host}
	if net.ParseIP(host) == nil {
		if ips, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
			return err
		}
	}
	var problems error
	for _, ip := range ips {
		if ctx.Err() != nil {
			return errors.Join(problems, ctx.Err())
		}
		if _, err := p.list.Join([]string{net.JoinHostPort(ip, port)}); err == nil {
			return nil
		} else {
			problems = errors.Join(problems, err)
		}
	}
	return problems
}

// compareMembers exchanges members with one that sees others alive than this node
// does. What memberlist broadcasts may die out before it has reached everybody; its
// own remedy is an exchange with anybody, every 30 s.
func (p *Peer) compareMembers(with Member, theirs uint64) {
	ours, quiet := p.members.sum()
	if ours == theirs || quiet < settling || p.rejoins.left.Load() {
		return
	}
	if p.rejoins.mayCompare(max(compareLeast, time.Duration(len(p.members.all()))*comparePerMember)) {
		p.spawn(func() {
			if err := p.contactOne(with.Address); err != nil {
				p.log.Debug("members were not exchanged", "with", string(with.ID), "err", err)
			}
		})
	}
}

// rejoin looks for peers that are missing. memberlist never does that by itself:
// half a minute after a peer is dead, it has forgotten that there was one.
func (p *Peer) rejoin() {
	alone := backoff{least: 500 * time.Millisecond, most: p.o.Timings.Rejoin / 3}
	for {
		began := time.Now()
		if missing := p.missing(); len(missing) > 0 && !p.rejoins.left.Load() {
			if err := p.contact(missing); err != nil {
				p.log.Debug("missing peers do not answer", "peers", len(missing), "err", err)
			}
		}
		wait := time.Duration((0.9 + 0.2*rand.Float64()) * float64(p.o.Timings.Rejoin))
		if len(p.members.others(p.o.Meta.ID)) == 0 {
			wait = alone.next()
		} else {
			alone.reset()
		}
		if !pause(p.ctx.Done(), max(wait-time.Since(began), 100*time.Millisecond)) {
			return
		}
	}
}

// missing are the remembered peers, and some of the dead and of the seeds, as far as
// no living member is there. Each half of a network that is split remembers its own
// peers alone, if there are enough of them, and only the dead lead to the other.
func (p *Peer) missing() []string {
	living, dead, _ := p.members.addresses()
	living = append(living, p.o.Advertise.String())
	known, seeds := p.rejoins.candidates()
	var missing []string
	for _, address := range slices.Concat(known, shuffled(slices.Concat(dead, seeds))) {
		if !slices.Contains(living, address) && !slices.Contains(missing, address) {
			missing = append(missing, address)
		}
	}
	return missing[:min(len(missing), maxContacts)]
}

func shuffled(list []string) []string {
	list = slices.Clone(list)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// Leave tells the others that this node goes, so that it is not taken for dead. It
// waits at most grace for the word to spread; Close comes after it, and waits for it.
func (p *Peer) Leave(grace time.Duration) error {
	if !p.lockList() {
		return net.ErrClosed
	}
	defer p.unlockList()
	p.rejoins.left.Store(true)
	name := fullName(p.o.Meta.ID, p.o.Boot)
	p.members.departs(name)
	p.spawn(func() { p.spreadDeparture(name) })
	return p.list.Leave(grace)
}

// ForceLeave makes every node forget a member that is dead and will not return, so
// that it is no longer looked for. Errors: ErrUnknownMember, ErrMemberAlive.
func (p *Peer) ForceLeave(id NodeID) error {
	names, err := p.members.forget(id)
	if err != nil {
		return err
	}
	for _, name := range names {
		p.spawn(func() { p.spreadDeparture(name) })
	}
	return nil
}

// Shun makes this node take another for gone, whatever that or anybody else says,
// until it is closed. It is for a node that is shut out and still has the gossip
// keys; that nobody opens a stream to it is for the Options' wires.
func (p *Peer) Shun(id NodeID) { p.members.shun(id) }

func (p *Peer) spreadDeparture(name string) {
	for range departures {
		for _, member := range p.members.others(p.o.Meta.ID) {
			p.send(member, departed(name))
		}
		if !pause(p.ctx.Done(), departurePause) {
			return
		}
	}
}

func departed(name string) []byte {
	e := encoder{buf: []byte{messageDeparted}}
	e.text(name, maxFullName)
	return e.buf
}

const maxFullName = maxIDBytes + 1 + maxBootBytes

// hearDeparted passes on what is new.
func (p *Peer) hearDeparted(body []byte) error {
	d := decoder{rest: body}
	name := d.text(maxFullName)
	if problem := d.end(); problem != "" {
		return fmt.Errorf("departure %s", problem)
	}
	if name == fullName(p.o.Meta.ID, p.o.Boot) || !p.members.departs(name) {
		return nil
	}
	others := p.members.others(p.o.Meta.ID)
	for range min(gossiped, len(others)) {
		p.send(others[rand.IntN(len(others))], departed(name))
	}
	return nil
}

// rejoins is what is known of where to find others.
type rejoins struct {
	left atomic.Bool // Leave was called

	mu       sync.Mutex // guards what is below
	seeds    []string
	known    []string  // the latest peers first
	compared time.Time // when members were last exchanged with one who sees others
}

func (r *rejoins) addSeeds(seeds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, seed := range seeds {
		if !slices.Contains(r.seeds, seed) {
			r.seeds = append(r.seeds, seed)
		}
	}
}

// mayCompare grants an exchange of members, one in each interval.
func (r *rejoins) mayCompare(interval time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.compared) < jitter(interval) {
		return false
	}
	r.compared = time.Now()
	return true
}

func (r *rejoins) candidates() (known, seeds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.known), slices.Clone(r.seeds)
}
