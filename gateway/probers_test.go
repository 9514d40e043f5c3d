package gateway

import (
	"strings"
	"sync"
	"testing"

	"grapevine/gateway/health"
	"grapevine/kv"
)

// pair is two nodes' stores, of which each shows the other's keys once they are
// exchanged.
type pair struct {
	t      *testing.T
	stores map[string]*kv.Store
}

func newPair(t *testing.T) *pair {
	p := &pair{t, map[string]*kv.Store{}}
	for _, id := range []string{"one", "two"} {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		p.stores[id] = store
		own, err := store.Own(kv.OwnerID(id))
		if err == nil {
			_, err = own.Begin(0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.believe("one", "two", kv.OwnerActive)
	p.believe("two", "one", kv.OwnerActive)
	return p
}

func (p *pair) believe(at, of string, state kv.OwnerState) {
	p.stores[at].SetOwner(kv.OwnerID(of), state)
}

// exchange brings what one has to the other.
func (p *pair) exchange() {
	p.t.Helper()
	for at, of := range map[string]string{"one": "two", "two": "one"} {
		changes, _, err := p.stores[of].OwnerDelta(p.stores[at].OwnerVector())
		if err != nil {
			p.t.Fatal(err)
		}
		var all [][]byte
		for change := range changes {
			all = append(all, change)
		}
		if _, _, err := p.stores[at].ApplyOwned(all); err != nil {
			p.t.Fatal(err)
		}
	}
}

// neighbour is a node's Peers.
type neighbour struct {
	*kv.Own
	id string
}

func (n neighbour) Gateways() (string, []string, <-chan struct{}) {
	return n.id, []string{"one", "two"}, nil
}

func (p *pair) others(id string) health.Peers {
	own, err := p.stores[id].Own(kv.OwnerID(id))
	if err != nil {
		p.t.Fatal(err)
	}
	return newOthers(neighbour{own, id}, p.stores[id])
}

var subject = health.Subject{Cluster: "c", Question: "00ff"}

func TestOthersSayWhatTheyFind(t *testing.T) {
	p := newPair(t)
	one, two := p.others("one"), p.others("two")
	if look := one.Look(); look.Self != "one" || len(look.Nodes) != 2 || len(look.Said) != 0 {
		t.Errorf("at first: %+v", look)
	}
	two.Look()
	changed := one.Look().SaidChanged
	for _, f := range []health.Finding{
		{Subject: subject, Address: "http://h:1", Up: true, Count: 1},
		{Subject: health.Subject{Cluster: "d", Question: "01"}, Address: "http://h:2", Why: strings.Repeat("ä", 10_000), Count: 7},
	} {
		if err := two.Tell(f); err != nil {
			t.Fatal(err)
		}
	}
	p.exchange()
	select {
	case <-changed:
	default:
		t.Error("the change is not told")
	}
	look := one.Look()
	if got := look.Said[subject]; len(got) != 1 || got[0] != (health.Opinion{Node: "two", Up: true, Count: 1}) {
		t.Errorf("of the first: %+v", got)
	}
	if got := look.Said[health.Subject{Cluster: "d", Question: "01"}]; len(got) != 1 || got[0] != (health.Opinion{Node: "two", Count: 7}) {
		t.Errorf("of the second: %+v", got)
	}
	if got := two.Look().Said; len(got) != 0 {
		t.Errorf("what it says itself comes back: %+v", got)
	}
	p.believe("one", "two", kv.OwnerOrphaned)
	if got := one.Look().Said; len(got) != 0 {
		t.Errorf("of one that can't be reached: %+v", got)
	}
	p.believe("one", "two", kv.OwnerActive)
	two.Withdraw(subject)
	p.exchange()
	if got := one.Look().Said; len(got) != 1 {
		t.Errorf("after one was taken back: %+v", got)
	}
	// A start later, what it said before is taken back until it says it anew.
	p.others("two").Look()
	p.exchange()
	if got := one.Look().Said; len(got) != 0 {
		t.Errorf("from before the restart: %+v", got)
	}
}

// What is not such a key, or not its owner's, says nothing.
func TestOthersSayNothingElse(t *testing.T) {
	p := newPair(t)
	one := p.others("one")
	own, err := p.stores["two"].Own("two")
	if err != nil {
		t.Fatal(err)
	}
	good := []byte(`{"state":"healthy","count":1}`)
	for key, value := range map[string][]byte{
		"gateway/health/c/00ff/one": good, "gateway/health/c/two": good, "gateway/health/c/00ff/two/x": good,
		"gateway/health/c/01/two": []byte(`{"state":"fine"}`), "gateway/health/c/02/two": []byte(`healthy`), "gateway/health/c/03/two": nil,
		"gateway/nodes/two": good,
	} {
		if err := own.Put(kv.Key(key), value); err != nil {
			t.Fatal(err)
		}
	}
	p.exchange()
	if got := one.Look().Said; len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func FuzzSaid(f *testing.F) {
	f.Add([]byte(`{"address":"http://h:1","state":"healthy","good":1,"bad":0,"count":3}`))
	f.Add([]byte(`{"state":"unhealthy","count":18446744073709551616}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		s, err := readSaid(value)
		if err == nil && s.State != "healthy" && s.State != "unhealthy" {
			t.Errorf("state %q", s.State)
		}
	})
}

// The lock is the monitor's alone: what reads and what writes go on beside each
// other.
func TestOthersBesideChanges(t *testing.T) {
	p := newPair(t)
	one, two := p.others("one"), p.others("two")
	var all sync.WaitGroup
	for _, o := range []health.Peers{one, two} {
		all.Go(func() {
			for n := range uint64(200) {
				o.Look()
				if err := o.Tell(health.Finding{Subject: subject, Up: n%2 == 0, Count: n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			p.exchange()
		}
	})
	all.Wait()
	p.exchange()
	if got := one.Look().Said[subject]; len(got) != 1 || got[0].Count != 199 {
		t.Errorf("%+v", got)
	}
}
