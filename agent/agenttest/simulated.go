package agenttest

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/cluster"
	"grapevine/agent/identity"
	"grapevine/gateway"
	"grapevine/kv"
)

// clusterPort is where the nodes of a Simulation reach each other.
const clusterPort = 7946

// Simulated is a node of a Simulation. Store, Gateway and Cluster are those of its
// last start.
type Simulated struct {
	Name, ID, IP string
	Store        *kv.Store
	Gateway      *gateway.Gateway
	Cluster      *cluster.Node
	// Change changes what the next start begins with; nil changes nothing.
	Change func(*cluster.Options)
	// NoGateway has the next start run no gateway, as agent run --no-gateway does: Gateway
	// is nil then, and the node joins with an edge's token. Simulations with such nodes
	// have no use for Equal.
	NoGateway bool

	s     *Simulation
	dir   string
	join  *cluster.Join
	log   *logFile
	up    bool
	stop  context.CancelFunc
	tasks sync.WaitGroup
	run   chan error    // what the Node's Run returned
	left  chan struct{} // closed when the node has left its cluster
}

// Joins has the next start join a cluster.
func (n *Simulated) Joins(token identity.Token) *Simulated {
	n.join = &cluster.Join{Token: token}
	return n
}

// File is the path of a file of the node's.
func (n *Simulated) File(name string) string { return filepath.Join(n.dir, name) }

// Up tells whether the node runs.
func (n *Simulated) Up() bool { return n.up }

// Start starts the node on what is on its disk.
func (n *Simulated) Start() *Simulated {
	n.s.t.Helper()
	if err := n.TryStart(); err != nil {
		n.s.t.Fatalf("%s: %v", n.Name, err)
	}
	return n
}

// TryStart is Start for what may fail.
func (n *Simulated) TryStart() (err error) {
	logger := slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", n.Name)
	if n.Store, err = kv.Open(kv.Options{Path: filepath.Join(n.dir, "kv.db")}); err != nil {
		return err
	}
	// As in an agent: the table first, the cluster after it, see package agent.
	var node *cluster.Node
	n.Gateway = nil
	if !n.NoGateway {
		n.Gateway = gateway.New(gateway.Options{Source: n.Store, Keeper: n.Store, Logger: logger, OnSwap: func(t *gateway.Table) {
			if node != nil {
				node.Served(t.Rev(), t.Hash())
			}
		}})
		if err := n.Gateway.Load(); err != nil {
			return err
		}
	}
	o, err := n.options(logger)
	if err == nil {
		node, err = cluster.New(o)
	}
	if err != nil {
		n.closeGateway()
		n.Store.Close()
		return err
	}
	n.Cluster, n.up = node, true
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	if n.Gateway != nil {
		node.Served(n.Gateway.Table().Rev(), n.Gateway.Table().Hash())
		n.tasks.Go(func() { _ = n.Gateway.Run(ctx) }) // it ends with ctx only
	}
	n.run = make(chan error, 1)
	n.tasks.Go(func() { n.run <- node.Run() })
	return nil
}

func (n *Simulated) closeGateway() {
	if n.Gateway != nil {
		n.Gateway.Close()
	}
}

func (n *Simulated) options(logger *slog.Logger) (cluster.Options, error) {
	host := n.s.Network.Host(n.IP)
	listener, err := host.Listen(clusterPort)
	if err != nil {
		return cluster.Options{}, err
	}
	packets, err := host.ListenPacket(clusterPort)
	if err != nil {
		return cluster.Options{}, err
	}
	n.left = make(chan struct{})
	left := sync.OnceFunc(func() { close(n.left) })
	o := cluster.Options{
		ID: n.ID, Name: n.Name, Version: "0.0.1", Store: n.Store, Dir: n.dir,
		Port: cluster.Port{Listener: listener, Packets: packets, Dial: host.Dial},
		Join: n.join, Stop: left, Logger: logger,
	}
	if n.Gateway != nil {
		o.Check, o.Gateway = n.Gateway.Check, n.Gateway
	}
	if n.Change != nil {
		n.Change(&o)
	}
	return o, nil
}

// stopPatience is how long a leader that stops hands over.
const stopPatience = 5 * time.Second

// Stop stops the node as SIGTERM does.
func (n *Simulated) Stop() {
	n.s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	if err := n.end(ctx); err != nil {
		n.s.t.Errorf("%s: stop: %v", n.Name, err)
	}
}

// Crash ends the node as a power cut does: the others hear nothing.
func (n *Simulated) Crash() {
	if n.up {
		n.s.Network.Host(n.IP).PowerOff()
		_ = n.end(ended()) // its connections are gone already
	}
}

func (n *Simulated) end(ctx context.Context) error {
	if !n.up {
		return nil
	}
	n.up = false
	err := n.Cluster.Close(ctx)
	n.stop()
	n.tasks.Wait()
	n.closeGateway()
	return cmp.Or(err, n.Store.Close())
}

// Ended is what the node's Run has returned, if it has.
func (n *Simulated) Ended() (err error, ended bool) {
	select {
	case err := <-n.run:
		n.run <- err
		return err, true
	default:
		return nil, false
	}
}

// Left is closed when the node has left its cluster, as of its last start.
func (n *Simulated) Left() <-chan struct{} { return n.left }

// Await waits for something to become true, and shows what the functions return
// when it does not.
func (n *Simulated) Await(what string, within time.Duration, holds func() bool, shown ...func() any) (took time.Duration) {
	n.s.t.Helper()
	const pause = 10 * time.Millisecond
	began := time.Now()
	for !holds() {
		if took := time.Since(began); took >= within {
			for _, show := range shown {
				n.s.t.Log(show())
			}
			n.s.t.Fatalf("%s: %s: not within %v", n.Name, what, within)
		}
		<-time.After(pause)
	}
	return time.Since(began)
}

// Set writes a key, or tells within the time why not.
func (n *Simulated) Set(key, value string, within time.Duration) (kv.Rev, error) {
	return n.propose(kv.Put(kv.Key(key), []byte(value)), within)
}

// Delete is Set for a key that is to go.
func (n *Simulated) Delete(key string, within time.Duration) (kv.Rev, error) {
	return n.propose(kv.Delete(kv.Key(key)), within)
}

func (n *Simulated) propose(op kv.Op, within time.Duration) (kv.Rev, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	result, err := n.Cluster.Propose(ctx, kv.Txn{Then: []kv.Op{op}, By: "test", At: time.Now()})
	return result.Rev, err
}

// MustSet is Set for what has to succeed.
func (n *Simulated) MustSet(key, value string) kv.Rev {
	n.s.t.Helper()
	rev, err := n.Set(key, value, 10*time.Second)
	if err != nil {
		n.s.t.Fatalf("%s: set %s: %v", n.Name, key, err)
	}
	return rev
}

// Get is the value of a key in the node's own store, empty if there is none.
func (n *Simulated) Get(key string) string {
	entry, _ := n.Store.View().Get(kv.Key(key))
	return string(entry.Value)
}

// Token makes a join token for a role.
func (n *Simulated) Token(role string) identity.Token {
	n.s.t.Helper()
	token, err := tokenFor(n.Cluster, role)
	if err != nil {
		n.s.t.Fatalf("%s: token: %v", n.Name, err)
	}
	return token
}

// Alive counts the members that live, as the node has it.
func (n *Simulated) Alive() (alive int) {
	for _, m := range n.Cluster.Members() {
		if m.Status == api.StatusAlive || m.Status == api.StatusSuspect {
			alive++
		}
	}
	return alive
}

// Leader is the name of who leads, as the node has it.
func (n *Simulated) Leader() string { return n.Cluster.Standing().Leader }

// state is what the node holds and serves, to compare.
func (n *Simulated) state() [2]string {
	head := n.Store.View().Head()
	return [2]string{head.Rev.String() + string(head.Hash[:]), n.Gateway.Table().Hash()}
}

// serves tells whether the node's table is of all that its store holds.
func (n *Simulated) serves() bool { return n.Gateway.Table().Rev() == n.Store.View().Rev() }

// Role is the node's own part: voter, learner or edge.
func (n *Simulated) Role() string {
	for _, m := range n.Cluster.Members() {
		if m.Self {
			return m.Role
		}
	}
	return ""
}
