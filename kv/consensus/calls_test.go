package consensus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

// A node without a part in raft writes and reads through the leader, even if it
// has heard of the wrong one.
func TestEdge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 27, 3)
		defer c.stop()
		c.begin()
		leader := c.leader()
		follower := c.others(leader)[0]
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		host := c.net.Host("10.0.0.99")
		outside := &node{c: c, host: host}
		client := consensus.NewClient(outside.dialCalls, nil)
		defer client.Close()
		heard := follower.asServer(true).Address
		never := make(chan struct{})
		edge := &consensus.Edge{
			Store: store, Remote: client,
			Leader: func() (consensus.Leader, <-chan struct{}) { return consensus.Leader{Address: heard}, never },
			Voters: func() (all, unreachable []string) { return []string{"n1", "n2", "n3"}, nil },
		}
		result, err := edge.Propose(t.Context(), put("a"))
		if err != nil || result.Rev.Rev != 1 {
			t.Fatalf("%+v, %v", result, err)
		}
		if tried, err := edge.Trial(t.Context(), put("b")); err != nil || tried.Rev.Rev != 2 {
			t.Errorf("trial %+v, %v", tried, err)
		}
		go func() {
			<-time.After(time.Second)
			store.Restore(leader.store.Snapshot()) // a pull
		}()
		view, err := edge.Read(t.Context())
		if _, there := view.Get("a"); err != nil || !there {
			t.Errorf("a is there: %t, %v", there, err)
		}
		leader.kill() // the edge is told nothing of it
		if _, err := edge.Propose(t.Context(), put("c")); err != nil {
			t.Errorf("after the leader was killed: %v", err)
		}
		for _, n := range c.others(leader) {
			n.kill()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		// On a connection that was open the first call may have been read.
		_, err = edge.Propose(ctx, put("d"))
		if !errors.Is(err, consensus.ErrNoLeader) && !errors.As(err, new(*consensus.UnknownError)) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with nobody there: %v", err)
		}
	})
}

// What is no call is refused by status, and a caller that knows no term is told
// it before anything is done.
func TestHandlerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 28, 1)
		defer c.stop()
		c.begin()
		n := c.nodes[0]
		n.mustPut("a", "1")
		transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return n.host.Dial(ctx, address)
		}}
		defer transport.CloseIdleConnections()
		post := func(path string, body io.Reader) int {
			t.Helper()
			request, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://%s:%d%s", n.ip, callPort, path), body)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			return response.StatusCode
		}
		if status := post("/peer/v1/propose", strings.NewReader("rubbish")); status != http.StatusBadRequest {
			t.Errorf("rubbish: %d", status)
		}
		if status := post("/peer/v1/propose", bytes.NewReader(make([]byte, 8<<20))); status != http.StatusRequestEntityTooLarge {
			t.Errorf("8 MiB: %d", status)
		}
		if status := post("/peer/v1/else", nil); status != http.StatusNotFound {
			t.Errorf("another path: %d", status)
		}
		_, err := n.client.Propose(t.Context(), consensus.Leader{Address: n.asServer(true).Address}, put("b"))
		var told *consensus.NotLeaderError
		if !errors.As(err, &told) || told.Leader.Term != n.raft.Term() || told.Leader.Address != n.asServer(true).Address {
			t.Errorf("without a term: %v", err)
		}
		if _, err := n.client.Propose(t.Context(), consensus.Leader{Address: n.asServer(true).Address, Term: 1}, put("b")); !errors.As(err, &told) {
			t.Errorf("of another term: %v", err)
		}
		if n.store.View().Len() != 1 {
			t.Error("something was done")
		}
		<-time.After(time.Second) // net/http lingers after a body that was too large
	})
}
