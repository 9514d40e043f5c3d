package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// drainFor is how long the end of an instance waits for writes that are under way.
// A leader without a quorum gives up sooner.
const drainFor = 2 * time.Second

// instance is one run of raft on the node's stores. A Raft has at most one at a
// time, and begins another when raft has to read its stores anew.
type instance struct {
	raft    *raft.Raft
	store   *watchedStore
	machine *machine
	calls   chan raft.RPC

	// settled is the term in which all that was committed before was applied, 0
	// for none; settling lets one barrier at a time be on its way.
	settled  atomic.Uint64
	settling token

	server string // this node's id in raft
	// once lets only the first reason to end count, which goes to broken.
	once   sync.Once
	broken chan<- broken
	// ending is closed when the instance is to end, ended when raft has.
	ending, ended chan struct{}
	tasks         sync.WaitGroup
}

// startInstance starts raft on the node's stores.
func (r *Raft) startInstance() (*instance, error) {
	i := &instance{
		server: r.server(), calls: r.transport.calls, broken: r.broken,
		ending: make(chan struct{}), ended: make(chan struct{}), settling: newToken(),
	}
	i.store = &watchedStore{backend: r.home.backend, snapshots: r.home.snapshots, watch: r.watch, failed: i.restart, ending: i.ending}
	i.machine = newMachine(r.o.Store, r.o.Dir != "", r.watch, i.restart)
	if newest, err := r.home.newest(); err != nil {
		return nil, err
	} else if newest != nil {
		i.machine.setConfiguration(newest.Configuration, newest.ConfigurationIndex)
	}
	var err error
	if i.raft, err = startRaft(r.o.config(i.server), i.machine, i.store, r.home.snapshots, r.transport); err != nil {
		return nil, fmt.Errorf("raft: %w", err)
	}
	i.store.running.Store(true)
	i.tasks.Go(func() { r.transport.forward(i) })
	i.tasks.Go(func() { r.watchLeadership(i) })
	i.tasks.Go(i.electAlone)
	return i, nil
}

// restart says that the instance can't go on, and why.
func (i *instance) restart(why error) {
	i.once.Do(func() {
		select {
		case i.broken <- broken{i, why}:
		case <-i.ending:
		}
	})
}

// startRaft is raft.NewRaft without its panics on a log that can't be read.
func startRaft(c *raft.Config, m *machine, store *watchedStore, snapshots raft.SnapshotStore, t *transport) (r *raft.Raft, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%v", reason)
		}
	}()
	return raft.NewRaft(c, m, store, store, snapshots, t)
}

// electAlone spares a node that is the only voter the wait for others: it tells
// raft to begin an election, as a leader that hands over does.
func (i *instance) electAlone() {
	servers := i.raft.GetConfiguration().Configuration().Servers
	voters := voterIDs(servers)
	if len(voters) != 1 || voters[0] != i.server {
		return
	}
	i.ask(raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}})
}

// ask passes a call to raft and waits for the answer. ok is false if the instance
// ended before.
func (i *instance) ask(call raft.RPC) (answer raft.RPCResponse, ok bool) {
	answers := make(chan raft.RPCResponse, 1)
	call.RespChan = answers
	select {
	case i.calls <- call:
	case <-i.ending:
		return raft.RPCResponse{}, false
	}
	select {
	case answer = <-answers:
		return answer, true
	case <-i.ended:
		return raft.RPCResponse{}, false
	}
}

// await waits for futures of raft's, or until the instance ended: raft leaves some
// without an answer then. It returns an error for each.
func (i *instance) await(futures ...raft.Future) []error {
	answered := make(chan []error, 1)
	go func() {
		errs := make([]error, len(futures))
		for n, future := range futures {
			errs[n] = future.Error()
		}
		answered <- errs
	}()
	select {
	case errs := <-answered:
		return errs
	case <-i.ended:
	}
	errs := make([]error, len(futures))
	for n := range errs {
		errs[n] = raft.ErrRaftShutdown
	}
	return errs
}

// awaitBy is await of one future that ctx bounds: raft's main loop may wait for a disk.
func (i *instance) awaitBy(ctx context.Context, begin func() raft.Future) error {
	_, err := within(ctx, func() (struct{}, error) { return struct{}{}, i.await(begin())[0] })
	return err
}

// within does what ends with the instance, and waits for it no longer than ctx.
func within[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := do()
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// errNotLeading says that the instance does not lead, or that its term changed.
var errNotLeading = errors.New("not leading")

// settle makes sure that the instance leads in a term in which it has applied
// all that was committed before, and returns the term. The first in a term waits
// for a barrier.
func (i *instance) settle() (term uint64, err error) {
	if term, ok := i.isSettled(); ok {
		return term, nil
	}
	i.settling.lock()
	defer i.settling.unlock()
	if term, ok := i.isSettled(); ok {
		return term, nil
	}
	if i.raft.State() != raft.Leader {
		return 0, errNotLeading
	}
	term = i.raft.CurrentTerm()
	barrier := i.raft.Barrier(0)
	if err := i.await(barrier)[0]; err != nil {
		return 0, errNotLeading
	}
	if i.raft.CurrentTerm() != term { // the barrier may have been in another
		return 0, errNotLeading
	}
	if indexed, ok := barrier.(raft.IndexFuture); ok {
		i.machine.advance(indexed.Index())
	}
	if err := i.machine.isStopped(); err != nil {
		return 0, err
	}
	i.settled.Store(term)
	return term, nil
}

// settleBy is settle that ctx bounds.
func (i *instance) settleBy(ctx context.Context) (term uint64, err error) {
	if term, ok := i.isSettled(); ok {
		return term, nil
	}
	return within(ctx, i.settle)
}

func (i *instance) isSettled() (term uint64, ok bool) {
	term = i.raft.CurrentTerm()
	return term, i.settled.Load() == term && i.raft.State() == raft.Leader
}

// end ends raft and everything that serves it. turn is held while writes are made.
func (i *instance) end(turn token, t *transport) {
	select {
	case turn <- struct{}{}:
		defer turn.unlock()
	case <-time.After(drainFor):
	}
	close(i.ending)
	ended := i.raft.Shutdown()
	t.cut()       // raft waits for its calls, and a silent peer's take long
	ended.Error() // never fails
	close(i.ended)
	i.tasks.Wait()
	t.resume()
}
