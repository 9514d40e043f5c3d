package consensus

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"grapevine/kv/memnet"
)

// hashicorp/raft #695: raft handles a heartbeat beside its main loop if the
// transport lets it. Ours does not, whatever handler raft sets.
func TestHeartbeatsGoToTheMainLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New(1)
		listen := func(host string) *streams {
			listener, err := network.Host(host).Listen(1)
			if err != nil {
				t.Fatal(err)
			}
			return newStreams(listener, host+":1", network.Host(host).Dial, func() string { return "a" })
		}
		log := slog.New(slog.DiscardHandler)
		ours := newTransport(listen("10.0.0.1"), newWatchdog(), nil, log)
		defer ours.end()
		sender := newTransport(listen("10.0.0.2"), newWatchdog(), nil, log)
		defer sender.end()
		ours.SetHeartbeatHandler(func(call raft.RPC) {
			t.Error("the handler has it")
			call.Respond(&raft.AppendEntriesResponse{}, nil)
		})
		i := &instance{calls: ours.calls, ending: make(chan struct{}), ended: make(chan struct{})}
		go ours.forward(i)
		defer close(i.ended)
		defer close(i.ending)
		go func() {
			call := <-ours.Consumer() // as raft's main loop does
			call.Respond(&raft.AppendEntriesResponse{Success: true, LastLog: 7}, nil)
		}()
		heartbeat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ID: []byte("b"), Addr: []byte("10.0.0.2:1")}, Term: 1}
		var answer raft.AppendEntriesResponse
		if err := sender.AppendEntries("a", "10.0.0.1:1", heartbeat, &answer); err != nil || !answer.Success {
			t.Errorf("answer %+v, %v", answer, err)
		}
		if known := sender.peers.get("a"); known.last != 7 || known.heard.IsZero() {
			t.Errorf("the sender knows %+v of the other", known)
		}
		if ours.peers.get("b").heard.IsZero() {
			t.Error("the other has not heard of the sender")
		}
	})
}

// What would make raft panic never reaches it.
func TestHostileCalls(t *testing.T) {
	for name, command := range map[string]any{
		"an entry of an unknown type":    &raft.AppendEntriesRequest{Entries: []*raft.Log{{Index: 1, Type: 77}}},
		"an old type of raft's":          &raft.AppendEntriesRequest{Entries: []*raft.Log{{Index: 1, Type: raft.LogAddPeerDeprecated}}},
		"no entry":                       &raft.AppendEntriesRequest{Entries: []*raft.Log{nil}},
		"an entry that is not the next":  &raft.AppendEntriesRequest{PrevLogEntry: 4, Entries: []*raft.Log{{Index: 6}}},
		"a configuration that is none":   &raft.AppendEntriesRequest{Entries: []*raft.Log{{Index: 1, Type: raft.LogConfiguration, Data: []byte("xyz")}}},
		"a snapshot's, that is none too": &raft.InstallSnapshotRequest{Configuration: []byte{0xff}},
	} {
		if err := checkCall(command); err == nil {
			t.Errorf("%s was let through", name)
		}
	}
	good := &raft.AppendEntriesRequest{PrevLogEntry: 4, Entries: []*raft.Log{
		{Index: 5}, {Index: 6, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(someServers)}, {Index: 7, Type: raft.LogNoop},
	}}
	if err := checkCall(good); err != nil {
		t.Error(err)
	}
}

// When its streams are closed, no connection of a transport stays open.
func TestStreamsCloseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New(1)
		listener, err := network.Host("10.0.0.1").Listen(1)
		if err != nil {
			t.Fatal(err)
		}
		s := newStreams(listener, "10.0.0.1:1", network.Host("10.0.0.1").Dial, func() string { return "a" })
		far, err := network.Host("10.0.0.2").Listen(1)
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		accepted := make(chan net.Conn, 1)
		go func() {
			conn, err := far.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- conn
		}()
		if _, err := s.Dial("b@10.0.0.2:1", 1e9); err != nil {
			t.Fatal(err)
		}
		other := <-accepted
		defer other.Close()
		incoming, err := network.Host("10.0.0.2").Dial(context.Background(), "10.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		defer incoming.Close()
		if _, err := s.Accept(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, conn := range []net.Conn{other, incoming} {
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("a connection is open still")
			}
		}
		if _, err := s.Dial("b@10.0.0.2:1", 1e9); err == nil {
			t.Error("closed streams dial")
		}
	})
}

// Who waits for a server where it was is let go, whether it is dialling or waits for an answer,
// and nobody else is.
func TestStreamsLeaveFormerAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New(1)
		listen := func(host string) net.Listener {
			listener, err := network.Host(host).Listen(1)
			if err != nil {
				t.Fatal(err)
			}
			return listener
		}
		s := newStreams(listen("10.0.0.1"), "10.0.0.1:1", network.Host("10.0.0.1").Dial, func() string { return "a" })
		defer s.Close()
		defer listen("10.0.0.2").Close()
		defer listen("10.0.0.3").Close()
		var conns []net.Conn
		for _, to := range []raft.ServerAddress{"b@10.0.0.2:1", "b@10.0.0.3:1", "c@10.0.0.2:1"} {
			conn, err := s.Dial(to, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		began, dialled := time.Now(), make(chan error, 1)
		go func() {
			_, err := s.Dial("b@10.0.0.9:1", time.Minute) // nobody is there
			dialled <- err
		}()
		<-time.After(time.Second)
		s.leave("b", "10.0.0.3:1")
		if err := <-dialled; err == nil || time.Since(began) != time.Second {
			t.Errorf("the dial ended after %v: %v", time.Since(began), err)
		}
		for i, closed := range []bool{true, false, false} {
			if _, err := conns[i].Write([]byte("x")); (err != nil) != closed {
				t.Errorf("connection %d: %v", i, err)
			}
		}
	})
}
