package announcing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/agent/announcing"
	"grapevine/kv"
)

const self = kv.OwnerID("self")

// node is a node with leases, of which all is real but the gateways.
type node struct {
	*announcing.Leases
	t        *testing.T
	store    *kv.Store
	own      *kv.Own
	gateways *gateways
}

// bubble runs f with a node, in fake time.
func bubble(t *testing.T, f func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 0)
		f(t, n)
	})
}

func newNode(t *testing.T, most int) *node {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := store.Own(self)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Begin(0); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, store: store, own: own, gateways: newGateways("a", "b", "c")}
	n.Leases = announcing.New(announcing.Options{
		Node: self, Region: "eu", Own: own, Store: store, Gateway: effective{}, Gateways: n.gateways, Logger: quiet(), Most: most,
	})
	var tasks sync.WaitGroup
	leases := n.Leases // which a test may replace
	tasks.Go(func() { _ = leases.Run() })
	t.Cleanup(func() {
		leases.Close()
		tasks.Wait()
		store.Close()
	})
	return n
}

// effective is a gateway that serves everything at once.
type effective struct{}

func (effective) WaitOwned(context.Context, kv.OwnerID, kv.OwnerMark) error { return nil }

func (effective) Effective(route string) (json.RawMessage, []string) {
	return json.RawMessage(fmt.Sprintf(`{"id":%q}`, route)), []string{"a notice"}
}

// gateways are those of nodes that live, each of which confirms when it is let.
type gateways struct {
	mu      sync.Mutex // guards what is below
	living  []announcing.Node
	changed chan struct{}
	done    map[string]chan struct{} // closed: it confirms
}

func newGateways(names ...string) *gateways {
	g := &gateways{changed: make(chan struct{}), done: map[string]chan struct{}{}}
	g.live(names...)
	return g
}

// live says who lives from now on.
func (g *gateways) live(names ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.living = nil
	for _, name := range names {
		g.living = append(g.living, announcing.Node{ID: name, Name: "name-" + name})
		if g.done[name] == nil {
			g.done[name] = make(chan struct{})
		}
	}
	close(g.changed)
	g.changed = make(chan struct{})
}

// confirm lets gateways confirm everything.
func (g *gateways) confirm(names ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		close(g.done[name])
	}
}

func (g *gateways) Gateways() ([]announcing.Node, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.living, g.changed
}

func (g *gateways) wait(ctx context.Context, node string) error {
	g.mu.Lock()
	done := g.done[node]
	g.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gateways) Applied(ctx context.Context, node string, _ kv.OwnerMark) error {
	return g.wait(ctx, node)
}

func (g *gateways) Drained(ctx context.Context, node string, _ kv.Key, _ kv.OwnerMark) error {
	return g.wait(ctx, node)
}

// parse is an announcement of route shop.
func (n *node) parse(instance, more string) announcing.Announcement {
	n.t.Helper()
	a, err := announcing.Parse(fmt.Appendf(nil, `{"routeId":"shop","instanceId":%q,"path":"/shop/{**rest}","address":"http://10.0.0.5:80"%s}`, instance, more))
	if err != nil {
		n.t.Fatal(err)
	}
	return a
}

func (n *node) announce(instance, more string) *announcing.Lease {
	n.t.Helper()
	lease, _, err := n.Announce(n.t.Context(), n.parse(instance, more), "")
	if err != nil {
		n.t.Fatal(err)
	}
	return lease
}

// stored is what all nodes see of an instance: its value and whether it drains; "" if it is not there.
func (n *node) stored(instance string) (value string, draining bool) {
	entry, there := n.store.View().Get(kv.Key("gateway/instances/shop/" + instance))
	if !there {
		return "", false
	}
	return string(entry.Value), entry.Own.Draining
}

// status is that of the stored value.
func (n *node) status(instance string) string {
	value, _ := n.stored(instance)
	var v struct{ Status string }
	if value == "" || json.Unmarshal([]byte(value), &v) != nil {
		return "gone"
	}
	return v.Status
}

// events are those that come until it has been silent for a moment.
func events(t *testing.T, lease *announcing.Lease) (all []announcing.Event) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		e, err := lease.Next(ctx)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
