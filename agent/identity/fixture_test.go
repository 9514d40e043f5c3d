package identity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"grapevine/agent/identity"
	"grapevine/kv/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nodeID is a node's id that a reader can tell from others.
func nodeID(n int) string { return fmt.Sprintf("01h%023d", n) }

// found founds a cluster in memory, whose first node is number n.
func found(t testing.TB, n int) *identity.Identity {
	t.Helper()
	return foundAt(t, identity.Options{Node: nodeID(n)})
}

func foundAt(t testing.TB, o identity.Options) *identity.Identity {
	t.Helper()
	id, err := identity.Found(o)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// pass lets fake time go by.
func pass(d time.Duration) {
	if time.Now().Year() > 2100 {
		panic("pass is for fake time")
	}
	<-time.After(d)
}

// inBubble runs f in fake time, which begins on 2000-01-01.
func inBubble(t *testing.T, f func(t *testing.T, n *town)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &town{t: t, network: memnet.New(1)}) })
}

// town is a network with nodes that serve gv-join/1 and gv-peer/1.
type town struct {
	t       *testing.T
	network *memnet.Network
}

// resident is a node of the town.
type resident struct {
	id   *identity.Identity
	host *memnet.Host
	addr string
	// records are the tokens that the node knows.
	mu      sync.Mutex
	records map[string]identity.TokenRecord
	door    *identity.Door
}

// settle has a node serve at 10.0.0.n; change sets up more of its door.
func (n *town) settle(number int, id *identity.Identity, change func(*identity.DoorOptions)) *resident {
	n.t.Helper()
	address := fmt.Sprintf("10.0.0.%d", number)
	r := &resident{id: id, host: n.network.Host(address), addr: address + ":7946", records: map[string]identity.TokenRecord{}}
	o := identity.DoorOptions{Self: id, Token: r.token, Seeds: func() []string { return []string{r.addr} }}
	if change != nil {
		change(&o)
	}
	r.door = identity.NewDoor(o)
	listener, err := r.host.Listen(7946)
	if err != nil {
		n.t.Fatal(err)
	}
	serve(n.t, listener, r)
	return r
}

func (r *resident) token(id string) (identity.TokenRecord, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, known := r.records[id]
	return record, known
}

func (r *resident) set(record identity.TokenRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records[record.ID] = record
}

// use is what a node does by its log of writes.
func (r *resident) use(_ context.Context, id, node string, key identity.PublicKey) error {
	record, _ := r.token(id)
	used, changed, err := record.UseBy(node, key, time.Now())
	if changed {
		r.set(used)
	}
	return err
}

// issue makes a token that the resident knows and that leads to it.
func (r *resident) issue(t *testing.T, o identity.TokenOptions) identity.Token {
	t.Helper()
	if o.Seeds == nil {
		o.Seeds = []string{r.addr}
	}
	token, record, err := r.id.Cluster().NewToken(o)
	if err != nil {
		t.Fatal(err)
	}
	r.set(record)
	return token
}

// serve is a small mux: it serves the door on both of its protocols.
func serve(t *testing.T, l net.Listener, r *resident) {
	ctx, cancel := context.WithCancel(context.Background())
	shaken := &queue{l, make(chan net.Conn), ctx}
	server := r.door.Server()
	var workers sync.WaitGroup
	workers.Go(func() { server.Serve(shaken) })
	workers.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			workers.Go(func() {
				conn, _, _, err := r.id.Server(ctx, raw, []string{identity.ProtocolJoin, identity.ProtocolPeer})
				if err != nil {
					raw.Close()
					return
				}
				select {
				case shaken.conns <- conn:
				case <-ctx.Done():
					raw.Close()
				}
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		server.Close()
		workers.Wait()
	})
}

type queue struct {
	net.Listener
	conns chan net.Conn
	ctx   context.Context
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.ctx.Done():
		return nil, net.ErrClosed
	}
}

// join has a node at 10.0.0.n join.
func (n *town) join(number int, o identity.Options, j identity.Joining) (*identity.Identity, identity.Joined, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Minute)
	defer cancel()
	o.Node = nodeID(number)
	if j.Dial == nil {
		j.Dial = n.network.Host(fmt.Sprintf("10.0.0.%d", number)).Dial
	}
	return identity.Join(ctx, o, j)
}

// admit joins a node that has to be let in, in memory.
func (n *town) admit(number int, token identity.Token) *identity.Identity {
	n.t.Helper()
	id, _, err := n.join(number, identity.Options{}, identity.Joining{Token: token})
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

// cluster is a voter and an edge of one cluster, which serve.
func (n *town) cluster() (voter, edge *resident) {
	n.t.Helper()
	voter = n.settle(1, found(n.t, 1), nil)
	edge = n.settle(2, n.admit(2, voter.issue(n.t, identity.TokenOptions{Role: identity.Edge})), nil)
	return voter, edge
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want it to hold %q", err, part)
		}
	}
}

func wantRefusal(t *testing.T, err error, reason identity.Reason) {
	t.Helper()
	var refusal *identity.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != reason {
		t.Errorf("error %v, want a refusal for %s", err, reason)
	}
}

func identityFile(t *testing.T) string { return filepath.Join(t.TempDir(), "identity.pem") }

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
