package api_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"grapevine/gateway"
	"grapevine/gateway/follow"
	"grapevine/kv"
)

// Who follows the API has the same of both planes, from the beginning and after each change, and makes the same table.
func TestFollowersHaveTheSame(t *testing.T) {
	n := startNode(t)
	own, err := n.store.Own(nodeID)
	if err != nil {
		t.Fatal(err)
	}
	announce := func(id, value string) {
		t.Helper()
		if err := own.Put(kv.Key("gateway/instances/shop/"+id), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	shop := `{"path":"/shop/{**rest}","address":"http://127.0.0.1:900`
	n.socket.do("PUT", "/v1/kv/gateway/routes/a", `{"path":"/a/{**rest}","backends":["http://127.0.0.1:9000"]}`)
	n.socket.do("PUT", "/v1/kv/app/x", "1")
	announce("one", shop+`1"}`)

	source, err := follow.New(follow.Options{Agent: n.tcp.base})
	if err != nil {
		t.Fatal(err)
	}
	n.background(func(ctx context.Context) { source.Run(ctx) })
	awaitSame(t, n.store, source)

	n.socket.do("PUT", "/v1/kv/gateway/routes/b", `{"path":"/b/<&>{**rest}","backends":["http://127.0.0.1:9000"]}`)
	n.socket.do("PUT", "/v1/kv/gateway/maintenance", `{"enabled":true,"reason":"deploy"}`)
	announce("two", shop+`2"}`)
	if err := own.Drain("gateway/instances/shop/one"); err != nil {
		t.Fatal(err)
	}
	awaitSame(t, n.store, source)
	n.socket.do("DELETE", "/v1/kv/gateway/routes/a", "")
	if err := own.Withdraw("gateway/instances/shop/one"); err != nil {
		t.Fatal(err)
	}
	awaitSame(t, n.store, source)

	g := gateway.New(gateway.Options{Source: source, Keeper: n.store})
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := n.gateway.WaitOwned(t.Context(), nodeID, kv.OwnerMark{}); err != nil {
		t.Fatal(err)
	}
	if got, want := g.Table().Hash(), n.gateway.Table().Hash(); got != want {
		t.Errorf("the follower's table is %s, the node's %s", got, want)
	}
}

// awaitSame waits until a follower shows what a store does of what gateways read.
func awaitSame(t *testing.T, store *kv.Store, source *follow.Source) {
	t.Helper()
	for timeout := time.After(patience); ; {
		changed := source.Changed()
		problem := difference(store.View(), source.View())
		if problem == "" {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatal(problem)
		}
	}
}

func difference(want, got kv.View) string {
	if want.Rev() != got.Rev() || want.Head().EpochID != got.Head().EpochID {
		return "it is at " + got.Rev().String()
	}
	n := 0
	for e := range want.Under("gateway/") {
		if kv.Ephemeral(e.Key) && !kv.Under("gateway/instances", e.Key) {
			continue
		}
		n++
		has, there := got.Get(e.Key)
		if !there || !bytes.Equal(has.Value, e.Value) || e.Own == nil && has.ModRev != e.ModRev || e.Own != nil && *has.Own != *e.Own {
			return "it lacks " + string(e.Key) + " as it is"
		}
	}
	if n != got.Len()+got.LenOwned() {
		return "it has what is not there"
	}
	return ""
}
