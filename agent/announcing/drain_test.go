package announcing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"grapevine/agent/announcing"
	"grapevine/kv"
)

const key = kv.Key("gateway/instances/shop/one")

// drain drains as the client does, and waits for a time.
func drain(t *testing.T, lease *announcing.Lease, d time.Duration) announcing.Handshake {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	h, err := lease.Drain(ctx, announcing.ByClient, "it ends")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// named are the events of one name.
func named(all []announcing.Event, name string) (found []announcing.Event) {
	for _, e := range all {
		switch e := e.(type) {
		case announcing.Draining:
			if name == e.Event {
				found = append(found, e)
			}
		case announcing.Drained:
			if name == e.Event {
				found = append(found, e)
			}
		case announcing.StatusChange:
			if name == e.Event {
				found = append(found, e)
			}
		}
	}
	return found
}

func TestTheHandshakeWaitsForEveryLiveGateway(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		lease := n.announce("one", "")
		n.gateways.confirm("a")
		h := drain(t, lease, time.Second)
		if h.Confirmed != 1 || h.Of != 3 || len(h.Stragglers) != 2 || h.Stragglers[0].Node != "name-b" || h.Took != "1s" {
			t.Errorf("after a second %+v", h)
		}
		if _, draining := n.stored("one"); !draining {
			t.Error("it is not draining")
		}
		all := events(t, lease)
		if d := named(all, "drained"); len(named(all, "draining")) != 1 || len(d) != 1 || d[0].(announcing.Drained).Confirmed != 1 {
			t.Errorf("told %v", all)
		}
		n.gateways.live("a", "b") // c is dead
		time.AfterFunc(time.Second, func() { n.gateways.confirm("b") })
		if h := drain(t, lease, time.Minute); h.Confirmed != 2 || h.Of != 2 || len(h.Stragglers) != 0 {
			t.Errorf("in the end %+v", h)
		}
		if d := named(events(t, lease), "drained"); len(d) != 1 || d[0].(announcing.Drained).Of != 2 {
			t.Errorf("told %v", d)
		}
		lease.Close()
	})
}

// One that starts while others drain may begin with what its disk holds.
func TestTheHandshakeAsksWhoComesToo(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.gateways.live("a")
		lease := n.announce("one", "")
		time.AfterFunc(time.Second, func() { n.gateways.live("a", "b"); n.gateways.confirm("a") })
		if h := drain(t, lease, 10*time.Second); h.Confirmed != 1 || h.Of != 2 {
			t.Errorf("%+v", h)
		}
	})
}

// An operator's drain outlives the connection of its instance, and is his to end.
func TestAnOperatorDrains(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.gateways.confirm("a", "b", "c")
		first := n.announce("one", "")
		if h, err := n.Drain(t.Context(), key, "by eve"); err != nil || h.Confirmed != 3 {
			t.Fatalf("%+v, %v", h, err)
		}
		healthy := "healthy"
		if got, err := first.Beat(announcing.Heartbeat{Status: &healthy}); got != "draining" || err != nil {
			t.Errorf("a heartbeat is answered with %q, %v", got, err)
		}
		second := n.announce("one", "")
		if _, draining := n.stored("one"); !draining {
			t.Error("a new connection undoes it")
		}
		if d := named(events(t, second), "draining"); len(d) != 1 || d[0].(announcing.Draining).By != "operator" {
			t.Errorf("the new connection is told %v", d)
		}
		if err := n.Undrain(key); err != nil {
			t.Fatal(err)
		}
		if _, draining := n.stored("one"); draining || n.status("one") != "" {
			t.Errorf("it is still draining: %q", n.status("one"))
		}
		if s := named(events(t, second), "status"); len(s) != 1 {
			t.Errorf("it is told %v", s)
		}
		drain(t, second, time.Second)
		var refused *announcing.RefusedError
		if err := n.Undrain(key); !errors.As(err, &refused) {
			t.Errorf("what its own process drains is put back: %v", err)
		}
		var missing *announcing.NoLeaseError
		if _, err := n.Drain(t.Context(), "gateway/instances/shop/two", ""); !errors.As(err, &missing) {
			t.Errorf("%v", err)
		}
	})
}

// Without a lease, as after a restart: what an operator drained stays so when its client is back.
func TestDrainingOutlivesARestart(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.gateways.confirm("a", "b", "c")
		lease := n.announce("one", "")
		n.Leases.Close()
		lease.Close()
		n.Leases = announcing.New(announcing.Options{Node: self, Own: n.own, Store: n.store, Gateways: n.gateways, Logger: quiet()})
		defer n.Leases.Close()
		if h, err := n.Drain(t.Context(), key, "by eve"); err != nil || h.Confirmed != 3 {
			t.Fatalf("%+v, %v", h, err)
		}
		n.announce("one", "")
		if _, draining := n.stored("one"); !draining {
			t.Error("its client has undone it")
		}
	})
}

// A client that drains and has to announce again gets no request in between.
func TestADrainingInstanceIsAnnouncedDraining(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.announce("one", `,"status":"draining"`)
		if _, draining := n.stored("one"); !draining {
			t.Error("it is not draining")
		}
	})
}

// Before this node has an incarnation others may have a mark of its former start, which says nothing.
func TestTheHandshakeWaitsForAnIncarnation(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		own, err := store.Own(self)
		if err != nil {
			t.Fatal(err)
		}
		n.gateways.confirm("a", "b", "c")
		l := announcing.New(announcing.Options{Node: self, Own: own, Store: store, Gateways: n.gateways, Logger: quiet()})
		defer l.Close()
		lease, _, err := l.Announce(t.Context(), n.parse("one", ""), "")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(3*time.Second, func() { _, _ = own.Begin(0) })
		if h := drain(t, lease, 10*time.Second); h.Confirmed != 3 || time.Since(began) < 3*time.Second {
			t.Errorf("%+v after %s", h, time.Since(began))
		}
	})
}
