package health_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/health"
	"grapevine/gateway/spec"
)

// town is nodes that hear each other at once, and destinations that all of them use.
type town struct {
	t     *testing.T
	sites []*site
	nodes map[string]*townsman

	// mu guards what follows.
	mu      sync.Mutex
	dead    map[string]bool
	said    map[health.Subject]map[string]health.Finding
	deaf    map[string]bool            // hear nothing of what is said
	full    bool                       // nobody can say anything
	ever    map[string]map[string]bool // by node: the addresses that it has ever spoken of
	retreat int                        // how often something was taken back
	changed chan struct{}
}

// townsman is one node: its monitor, its members, and how often it has asked.
type townsman struct {
	*health.Group
	town    *town
	id      string
	monitor *health.Monitor
	members []*health.Member
	log     lines
	stop    func()

	mu     sync.Mutex
	asked  map[int][]time.Time // by site
	cutOff map[int]bool        // sites that it can't reach
}

// fewAsk is checks each second by n nodes, bad after 3, good after 2. Failures of
// requests take nothing out.
func fewAsk(n int) health.Policy {
	p := asking()
	p.Probers = n
	return p
}

func openTown(t *testing.T, nodes, sites int, policy health.Policy) *town {
	w := &town{
		t: t, nodes: map[string]*townsman{}, dead: map[string]bool{}, deaf: map[string]bool{},
		ever: map[string]map[string]bool{}, said: map[health.Subject]map[string]health.Finding{}, changed: make(chan struct{}),
	}
	for range sites {
		w.sites = append(w.sites, newSite("200"))
	}
	for n := range nodes {
		w.open(fmt.Sprintf("node%d", n), policy)
	}
	return w
}

func (w *town) open(id string, policy health.Policy) {
	n := &townsman{town: w, id: id, asked: map[int][]time.Time{}, cutOff: map[int]bool{}}
	n.monitor = health.NewMonitor(slog.New(&n.log), n)
	n.Group = n.monitor.NewGroup("c", func() {})
	for i, s := range w.sites {
		n.members = append(n.members, n.Member(fmt.Sprintf("http://site%d", i), n.dial(i, s)))
	}
	n.Enter(policy, n.members)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { n.monitor.Follow(ctx) })
	n.stop = sync.OnceFunc(func() {
		cancel()
		following.Wait()
		n.Close()
		n.monitor.Close()
	})
	w.t.Cleanup(n.stop)
	w.change(func() { w.nodes[id] = n })
}

func (n *townsman) dial(i int, s *site) health.Dial {
	reach := s.dial
	return func(ctx context.Context) (net.Conn, error) {
		n.mu.Lock()
		n.asked[i] = append(n.asked[i], time.Now())
		cut := n.cutOff[i]
		n.mu.Unlock()
		if cut {
			return nil, errors.New("no route")
		}
		return reach(ctx)
	}
}

// change changes what the nodes see.
func (w *town) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (n *townsman) Look() health.Outlook {
	w := n.town
	w.mu.Lock()
	defer w.mu.Unlock()
	look := health.Outlook{Self: n.id, Said: map[health.Subject][]health.Opinion{}, NodesChanged: w.changed}
	for id := range w.nodes {
		if id == n.id || !w.dead[id] && !w.deaf[n.id] {
			look.Nodes = append(look.Nodes, id)
		}
	}
	for subject, by := range w.said {
		for id, f := range by {
			if id != n.id && !w.dead[id] && !w.deaf[n.id] {
				look.Said[subject] = append(look.Said[subject], health.Opinion{Node: id, Up: f.Up, Count: f.Count})
			}
		}
	}
	return look
}

func (n *townsman) Tell(f health.Finding) error {
	if n.town.full {
		return errors.New("the number of keys of this node is 10001, more than 10000")
	}
	if f.Good+f.Bad == 0 {
		n.town.t.Errorf("%s speaks of %s before it has an answer", n.id, f.Address)
	}
	n.town.change(func() {
		if n.town.ever[n.id] == nil {
			n.town.ever[n.id] = map[string]bool{}
		}
		n.town.ever[n.id][f.Address] = true
		if n.town.said[f.Subject] == nil {
			n.town.said[f.Subject] = map[string]health.Finding{}
		}
		n.town.said[f.Subject][n.id] = f
	})
	return nil
}

func (n *townsman) Withdraw(s health.Subject) {
	n.town.change(func() {
		delete(n.town.said[s], n.id)
		n.town.retreat++
	})
}

// kill ends a node without a word.
func (w *town) kill(id string) {
	w.change(func() { w.dead[id] = true })
	said := w.snapshot()
	w.nodes[id].stop()
	w.change(func() { w.said = said }) // a dead one takes nothing back
}

func (w *town) snapshot() map[health.Subject]map[string]health.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := map[health.Subject]map[string]health.Finding{}
	for subject, by := range w.said {
		said[subject] = maps.Clone(by)
	}
	return said
}

// sayers are the nodes that say something of a site.
func (w *town) sayers(site int) (ids []string) {
	for _, by := range w.snapshot() {
		for id, f := range by {
			if f.Address == fmt.Sprintf("http://site%d", site) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// since is how many checks of a site there were after a moment, by node.
func (w *town) since(site int, from time.Time) map[string]int {
	asked := map[string]int{}
	for id, n := range w.nodes {
		n.mu.Lock()
		for _, at := range n.asked[site] {
			if at.After(from) {
				asked[id]++
			}
		}
		n.mu.Unlock()
	}
	return asked
}

// want wants a state of a site at all living nodes but some.
func (w *town) want(site int, state health.State, but ...string) {
	w.t.Helper()
	synctest.Wait()
	for id, n := range w.nodes {
		if got := n.members[site].State(); got != state && !w.dead[id] && !slices.Contains(but, id) {
			w.t.Errorf("after %v: %s takes site %d for %v; want %v", time.Since(begin), id, site, got, state)
		}
	}
}

func (w *town) total(from time.Time) (n int) {
	for i := range w.sites {
		for _, asked := range w.since(i, from) {
			n += asked
		}
	}
	return n
}

// Two nodes ask each destination however many there are, not the same ones for all,
// and all know what they find.
func TestFewAskForAll(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 10, 20, fewAsk(2))
		<-time.After(30 * time.Second)
		from, busiest := time.Now(), map[string]int{}
		<-time.After(100 * time.Second)
		for i := range w.sites {
			w.want(i, health.Healthy)
			asked := w.since(i, from)
			if len(asked) != 2 {
				t.Errorf("site %d is asked by %v; want two nodes", i, asked)
			}
			for id, n := range asked {
				busiest[id] += n
				if n < 95 || n > 105 {
					t.Errorf("site %d: %s asked %d times in 100 s", i, id, n)
				}
			}
			if sayers := w.sayers(i); len(sayers) != 2 {
				t.Errorf("site %d: %v speak of it; want two", i, sayers)
			}
		}
		if len(busiest) < 8 {
			t.Errorf("only %d of 10 nodes ask 20 destinations", len(busiest))
		}
		for id, n := range w.nodes {
			if r := n.members[0].Report(); r.Asked != true || r.Others == (w.since(0, from)[id] > 0) {
				t.Errorf("%s: %+v", id, r)
			}
		}
	})
}

// A destination that fails is out everywhere soon, since each node sees for itself,
// and back everywhere; a minute later two nodes ask again.
func TestFewAskAndAllSeeItFail(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 6, 2, fewAsk(2))
		<-time.After(30 * time.Second)
		w.sites[0].is("500")
		<-time.After(5500 * time.Millisecond) // three checks, a moment, and one of its own
		w.want(0, health.Unhealthy)
		w.want(1, health.Healthy)
		if asked := w.since(0, time.Now().Add(-2*time.Second)); len(asked) != 6 {
			t.Errorf("asked by %v while it is down; want all six", asked)
		}
		w.sites[0].is("200")
		<-time.After(4 * time.Second)
		w.want(0, health.Healthy)
		<-time.After(90 * time.Second)
		if asked := w.since(0, time.Now().Add(-10*time.Second)); len(asked) != 2 {
			t.Errorf("asked by %v a minute and a half later; want two", asked)
		}
		w.want(0, health.Healthy)
	})
}

// One that can't reach a destination says so, and takes it out for itself alone.
func TestNobodyActsOnHearsay(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 6, 1, fewAsk(2))
		<-time.After(30 * time.Second)
		liar := w.nodes[w.sayers(0)[0]]
		liar.mu.Lock()
		liar.cutOff[0] = true
		liar.mu.Unlock()
		for range 120 {
			<-time.After(time.Second)
			w.want(0, health.Healthy, liar.id)
		}
		if got := liar.members[0].State(); got != health.Unhealthy {
			t.Errorf("the one that can't reach it takes it for %v", got)
		}
		if asked := w.since(0, time.Now().Add(-10*time.Second)); len(asked) != 6 {
			t.Errorf("asked by %v while somebody says that it is down; want all", asked)
		}
	})
}

// Who asks may die, one or all at once: others take the part, and nobody takes a
// destination for bad by that. That holds also if nobody hears of the death.
func TestWhoAsksDies(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 6, 1, fewAsk(2))
		<-time.After(30 * time.Second)
		w.kill(w.sayers(0)[0])
		<-time.After(3 * time.Second)
		w.want(0, health.Healthy)
		if asked := w.since(0, time.Now().Add(-1500*time.Millisecond)); len(asked) != 2 {
			t.Errorf("one has died: asked by %v", asked)
		}
		for _, id := range w.alive(w.sayers(0)) {
			w.kill(id)
		}
		<-time.After(8 * time.Second)
		w.want(0, health.Healthy)
		w.sites[0].is("500")
		<-time.After(6 * time.Second)
		w.want(0, health.Unhealthy)
	})
}

func (w *town) alive(ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return w.dead[id] })
}

// What is said and not said again is believed for a while, and then each asks for
// itself.
func TestOldOpinionsAreNotBelieved(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 4, 1, fewAsk(2))
		<-time.After(30 * time.Second)
		silent := w.sayers(0)
		w.mu.Lock()
		w.full = true
		w.mu.Unlock()
		from := time.Now()
		<-time.After(2 * time.Minute)
		if asked := w.since(0, from); len(asked) != 2 {
			t.Errorf("for two minutes nothing new: asked by %v; want two", asked)
		}
		<-time.After(2 * time.Minute)
		if asked := w.since(0, time.Now().Add(-5*time.Second)); len(asked) != 4 {
			t.Errorf("for four minutes nothing new: asked by %v; want all", asked)
		}
		w.want(0, health.Healthy)
		for _, id := range silent {
			if n := w.nodes[id].log.count("what checks find is not told to the other nodes, which ask for themselves"); n != 1 {
				t.Errorf("%s said %d times that it can't tell", id, n)
			}
		}
	})
}

// A node that hears of nobody asks everything itself, and so does one whose peers
// have said nothing of a new destination.
func TestWhoIsAloneAsks(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 5, 3, fewAsk(2))
		<-time.After(30 * time.Second)
		w.change(func() { w.deaf["node1"] = true })
		<-time.After(8 * time.Second)
		from := time.Now()
		<-time.After(5 * time.Second)
		for i := range w.sites {
			if w.since(i, from)["node1"] < 4 {
				t.Errorf("site %d: the one that is cut off asked %d times in 5 s", i, w.since(i, from)["node1"])
			}
			w.want(i, health.Healthy)
		}
		w.sites[2].is("refuse")
		<-time.After(6 * time.Second)
		w.want(2, health.Unhealthy)
	})
}

// A node whose requests fail asks for itself, whatever the others say, and acts on
// what it finds.
func TestOwnFailuresOutrank(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 5, 1, fewAsk(2))
		<-time.After(30 * time.Second)
		cut := w.nodes[w.listener(0)]
		cut.mu.Lock()
		cut.cutOff[0] = true
		cut.mu.Unlock()
		<-time.After(10 * time.Second)
		w.want(0, health.Healthy)
		for range spec.DefaultConsecutiveFailures {
			cut.members[0].Failed()
		}
		<-time.After(1500 * time.Millisecond)
		w.want(0, health.Healthy, cut.id)
		if got := cut.members[0].State(); got != health.Unhealthy {
			t.Errorf("its own requests fail, and so does its check: %v", got)
		}
		<-time.After(2 * doubtFor)
		if got := cut.members[0].State(); got != health.Unhealthy {
			t.Errorf("what it found itself holds until it finds something else: %v", got)
		}
		cut.mu.Lock()
		cut.cutOff[0] = false
		cut.mu.Unlock()
		<-time.After(4 * time.Second)
		w.want(0, health.Healthy)
	})
}

// listener is a node that does not ask a site.
func (w *town) listener(site int) string {
	asked := w.since(site, time.Now().Add(-3*time.Second))
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		if asked[id] == 0 {
			return id
		}
	}
	w.t.Fatalf("all ask site %d: %v", site, asked)
	return ""
}

// A member that comes and goes again and again moves nothing.
func TestFlappingNodesMoveNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 8, 10, fewAsk(2))
		<-time.After(30 * time.Second)
		from := time.Now()
		w.mu.Lock()
		w.retreat = 0
		w.mu.Unlock()
		for i := range 40 {
			w.change(func() { w.dead["node3"] = i%2 == 0 })
			<-time.After(2 * time.Second)
		}
		for i := range w.sites {
			w.want(i, health.Healthy)
		}
		w.mu.Lock()
		if w.retreat > 0 {
			t.Errorf("%d times something was taken back", w.retreat)
		}
		w.mu.Unlock()
		// Two for each, one more for those of the restless node, and a few at most beside.
		if n := w.total(from); n > 10*80*3 {
			t.Errorf("%d checks in 80 s of 10 destinations; want about 1,600 to 2,000", n)
		}
		for _, n := range w.nodes {
			if lines := n.log.count("destination is unhealthy"); lines > 0 {
				t.Errorf("%s said %d times that one is unhealthy", n.id, lines)
			}
		}
	})
}

// doubtFor is how long a node asks for itself after it has doubted.
const doubtFor = time.Minute

// Who takes over does not take out what loses one answer: that it was well until now
// still speaks for it.
func TestWhoTakesOverPresumesWhatWas(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 3, 1, fewAsk(2))
		<-time.After(30 * time.Second)
		last := w.listener(0)
		for _, id := range w.sayers(0) {
			w.kill(id)
		}
		from := time.Now()
		w.sites[0].is("500")
		for w.since(0, from)[last] == 0 {
			<-time.After(10 * time.Millisecond)
		}
		w.sites[0].is("200")
		for range 100 {
			w.want(0, health.Healthy)
			<-time.After(50 * time.Millisecond)
		}
	})
}

// A node that has just started, and sees nobody so far, says nothing of what others
// ask.
func TestWhoStartsSaysNothingYet(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 6, 20, fewAsk(2))
		<-time.After(30 * time.Second)
		w.change(func() { w.deaf["new"] = true })
		w.open("new", fewAsk(2))
		<-time.After(3 * time.Second)
		w.change(func() { delete(w.deaf, "new") })
		<-time.After(30 * time.Second)
		speaks := 0
		for i := range w.sites {
			if slices.Contains(w.sayers(i), "new") {
				speaks++
			}
		}
		if ever := len(w.ever["new"]); ever != speaks || speaks == 0 {
			t.Errorf("it has spoken of %d destinations, and is to ask %d", ever, speaks)
		}
	})
}

// One that is about to stop takes back what it has said before.
func TestWhoRestsIsNotReliedOn(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 5, 4, fewAsk(2))
		<-time.After(30 * time.Second)
		w.nodes["node0"].monitor.Rest()
		w.nodes["node1"].monitor.Rest()
		<-time.After(time.Second)
		for i := range w.sites {
			for _, id := range w.sayers(i) {
				if id == "node0" || id == "node1" {
					t.Errorf("site %d: %s still speaks of it", i, id)
				}
			}
		}
	})
}

// What is told of an address that is left, or asked in another way, goes.
func TestWhatIsToldEnds(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		w := openTown(t, 2, 2, fewAsk(1))
		<-time.After(30 * time.Second)
		other := fewAsk(1)
		other.Check.Path = "/other"
		for _, n := range w.nodes {
			n.Enter(other, n.members)
			n.Leave(n.members[:1])
			n.Leave(n.members[:1])
			n.Leave(n.members[1:])
		}
		<-time.After(10 * time.Second)
		if sayers := w.sayers(0); len(sayers) > 0 {
			t.Errorf("of a destination that is gone %v speak", sayers)
		}
		if sayers := w.sayers(1); len(sayers) != 1 {
			t.Errorf("of the one that is left %v speak; want one, of the new question", sayers)
		}
		w.want(1, health.Healthy)
		for _, n := range w.nodes {
			n.Enter(fewAsk(0), n.members[1:])
			n.Leave(n.members[1:])
		}
		<-time.After(10 * time.Second)
		if sayers := w.sayers(1); len(sayers) > 0 {
			t.Errorf("each asks for itself now, and %v speak", sayers)
		}
	})
}
