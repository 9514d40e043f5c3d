package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"grapevine/kv"
)

// Raft is the Log of a node among others: raft orders the writes, and every
// server of the cluster merges the same commits into its store.
//
//	Propose ─► leader: resolve ─► check ─► sign ─► raft ─► machine ─► Store.Merge
//	           one batch at a time          sync on a majority      on every server
//
// A node that does not lead calls the leader. All methods may be called by any
// number of goroutines.
type Raft struct {
	o         Options
	log       *slog.Logger
	home      *home // replaced by the keeper only, while no instance runs
	watch     *watchdog
	transport *transport

	waiting queue
	heralds heralds
	wake    chan struct{} // one token: something waits
	turn    token         // held while writes are made
	broken  chan broken
	quit    chan struct{}
	tasks   sync.WaitGroup

	// writing says that a round is under way: others may have of it what this node's
	// store has not.
	writing atomic.Bool

	// known is how a leader recognises a request that was done. A test plants a
	// fault here.
	known func(id string) (kv.Result, bool)

	swap token // held while the instance is replaced

	mu      sync.Mutex // guards all below
	name    string     // this node's server id, see server
	current *instance  // nil while there is none
	was     bool       // there is none, and the node is in the configuration
	problem error
	closed  bool
	// moved is closed when there may be another leader.
	moved chan struct{}
	// handingOver counts the transfers of leadership under way.
	handingOver int
	// fallback are the other voters, to be asked in turn who leads while there is
	// no instance that knows.
	fallback []string
}

// broken says that an instance can't go on.
type broken struct {
	instance *instance
	why      error
}

// Open reads the node's stores and starts raft. A node with an empty folder has no
// part in a cluster until Bootstrap is called on it, or a leader adds it.
//
// Errors: ErrRejoin, see there; kv.ErrLocked when another process uses Dir; else what
// is wrong with the options, the disk or the log.
func Open(o Options) (*Raft, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Raft{
		o: o, name: o.Server, log: o.Logger, watch: newWatchdog(),
		wake: make(chan struct{}, 1), turn: newToken(), swap: newToken(), broken: make(chan broken),
		quit: make(chan struct{}), moved: make(chan struct{}),
		known: o.Store.Committed,
	}
	if err := r.openHome(); err != nil {
		return nil, errors.Join(err, r.closeHome())
	}
	r.transport = newTransport(newStreams(o.Listener, o.Address, o.Dial, r.server), r.watch, o.Resolve, r.log)
	if err := r.begin(); err != nil {
		r.transport.end()
		return nil, errors.Join(err, r.closeHome())
	}
	r.tasks.Go(r.keep)
	r.tasks.Go(r.write)
	return r, nil
}

// openHome opens the stores and makes them fit together. It is for the keeper.
func (r *Raft) openHome() error {
	var err error
	if r.home = r.o.home; r.home == nil {
		if r.home, err = openHome(r.o.Dir); err != nil {
			return err
		}
	}
	var joined uint64
	if r.o.Dir != "" {
		if joined, err = r.home.identify(r.o.Store, r.server()); err != nil {
			return err
		}
	}
	if err := r.home.mend(); err != nil {
		return err
	}
	return r.home.align(r.o.Store, joined)
}

func (r *Raft) closeHome() error {
	if r.home == nil {
		return nil
	}
	err := r.home.backend.close()
	r.home = nil
	return err
}

// begin starts an instance. It is for holders of swap, and for Open.
func (r *Raft) begin() error {
	i, err := r.startInstance()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.current = i
	r.mu.Unlock()
	r.signalMoved()
	return nil
}

// stop ends the instance, if there is one. It is for holders of swap.
func (r *Raft) stop() {
	i, voters, in := r.instance(), r.otherVoters(), r.InRaft()
	if i == nil {
		return
	}
	r.mu.Lock()
	r.current, r.fallback, r.was = nil, voters, in
	r.mu.Unlock()
	i.end(r.turn, r.transport)
	r.signalMoved()
}

// otherVoters are the addresses of the other voters.
func (r *Raft) otherVoters() []string {
	var others []string
	for _, peer := range r.Peers() {
		if peer.Role == RoleVoter && peer.ID != r.server() {
			others = append(others, peer.Address)
		}
	}
	return others
}

// server is this node's id in raft now. It changes when raft begins anew.
func (r *Raft) server() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.name
}

// instance is the present one, nil if there is none.
func (r *Raft) instance() *instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Bootstrap begins a cluster of the given voters, of which this node is one. Of a
// new cluster exactly one node may be told, and only once: the others learn of it
// from that one. What the store holds is what the cluster begins with.
//
// Errors: ErrHasState, on a node that has, or had, a part in a cluster: nothing was
// changed then, and after a restart with the same flags that is what is wanted.
func (r *Raft) Bootstrap(servers ...Server) error {
	if err := checkBootstrap(r.server(), servers); err != nil {
		return err
	}
	r.swap.lock()
	defer r.swap.unlock()
	if r.isClosed() {
		return ErrClosed
	}
	r.stop()
	if r.home == nil {
		return r.Problem()
	}
	return errors.Join(r.home.bootstrap(r.o.Store, servers), r.begin())
}

func checkBootstrap(own string, servers []Server) error {
	for _, server := range servers {
		if !server.Voter {
			return fmt.Errorf("raft: bootstrap: server %s: all servers begin as voters", server.ID)
		}
	}
	for _, server := range servers {
		if server.ID == own {
			return nil
		}
	}
	return fmt.Errorf("raft: bootstrap: server %s is not among the voters", own)
}

// Problem is why this node has no part in raft, nil while it has one or is simply
// not in the configuration. It heals by itself when the disk does; a log that a
// newer program wrote, or a store that is read-only, needs a restart.
func (r *Raft) Problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

func (r *Raft) setProblem(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = err
}

func (r *Raft) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Shutdown hands leadership over if this node leads and others could, and ends
// raft. ctx bounds the handing over; if it has ended there is none. The store stays
// open.
func (r *Raft) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	if again {
		return nil
	}
	// First hand over, while everything still runs: without it the others would
	// notice only when they miss the heartbeats.
	if ctx.Err() == nil {
		if err := r.handOver(ctx, ""); err != nil && !errors.As(err, new(*NotLeaderError)) && !errors.Is(err, ErrNotMember) {
			r.log.Info("leadership was not handed over", "err", err)
		}
	}
	close(r.quit) // the keeper starts nothing any more, and who waits to write is told
	r.swap.lock()
	defer r.swap.unlock()
	r.stop()
	r.transport.end()
	r.tasks.Wait()
	return r.closeHome()
}
