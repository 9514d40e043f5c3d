package consensus

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"grapevine/kv"
)

// The pauses between two tries to reach a leader. An election takes one to two
// seconds: asking more often finds nothing, and asking less often adds to it.
const (
	shortestWait = 20 * time.Millisecond
	longestWait  = 250 * time.Millisecond
)

// leastTry is the time that has to be left for another try, and that one under way
// still has when its leader may lead no longer: a try that is given up while its answer
// comes makes a write unknown that nobody has done.
const leastTry = 50 * time.Millisecond

// route brings a request to the leader, whoever that is by then, until its context
// ends.
type route struct {
	// leader is where the leader is believed to be. changed is closed when that may
	// have changed.
	leader func() (to Leader, here bool, changed <-chan struct{})
	// voters are all that vote, and those that have not been heard of lately.
	voters func() (all, unreachable []string)
	// quit, if set, is closed when nothing is to be asked any more.
	quit <-chan struct{}
}

// steps are what a route does with a request at its end.
type steps struct {
	id    string // of a write; "" of what changes nothing
	here  func(ctx context.Context) error
	there func(ctx context.Context, to Leader) error
}

func (r route) follow(ctx context.Context, s steps) error {
	f := &search{route: r, steps: s, wait: shortestWait}
	for {
		asked, changed, err := f.ask(ctx)
		if f.isAnswer(ctx, err) {
			return err
		}
		if f.mayRedirect(asked) {
			continue
		}
		if err := f.pause(ctx, changed); err != nil {
			return f.giveUp(err)
		}
	}
}

// search is a request on its way to the leader.
type search struct {
	route
	steps
	last       error         // what came of the last try
	unknown    bool          // somebody may have done the write
	hint       Leader        // whom the last one named
	redirected bool          // a hint was followed without a pause
	wait       time.Duration // the next pause
}

// ask asks whoever is believed to lead.
func (f *search) ask(ctx context.Context) (to Leader, changed <-chan struct{}, err error) {
	to, here, changed := f.leader()
	if here {
		return to, changed, f.here(ctx)
	}
	if f.hint.Address != "" && f.hint.Term >= to.Term {
		to = f.hint
	}
	if to.Address == "" || f.there == nil {
		return to, changed, ErrNoLeader
	}
	return to, changed, attempt(ctx, changed, to, f.there)
}

// isAnswer tells an answer, nil or a refusal, from a failure to get one.
func (f *search) isAnswer(ctx context.Context, err error) bool {
	f.last, f.hint = err, Leader{}
	var lost *UnknownError
	var redirect *NotLeaderError
	switch {
	case errors.As(err, &lost):
		f.unknown = f.id != ""
		return false
	case errors.As(err, &redirect):
		f.hint = redirect.Leader
		return false
	}
	return !isNotDone(err) && (err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()))
}

// isNotDone reports whether a request was not done for a reason that another node,
// or the same one a moment later, may not have.
func isNotDone(err error) bool {
	var unreachable *UnreachableError
	var stopped *StoppedError
	var distant *notDoneError
	return errors.As(err, &unreachable) || errors.As(err, &stopped) || errors.As(err, &distant) || errors.Is(err, ErrNoLeader)
}

// mayRedirect reports whether somebody else was named, who is asked at once; but
// two nodes that name each other are asked with pauses.
func (f *search) mayRedirect(asked Leader) bool {
	if f.redirected || f.hint.Address == "" || f.hint == asked {
		return false
	}
	f.redirected = true
	return true
}

// pause waits before the next try; the error says that there is to be none.
func (f *search) pause(ctx context.Context, changed <-chan struct{}) error {
	f.redirected = false
	select {
	case <-changed:
		f.wait = shortestWait
	case <-time.After(f.wait):
		f.wait = min(2*f.wait, longestWait)
	case <-ctx.Done():
	case <-f.quit:
		return ErrClosed
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < leastTry {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// giveUp makes the error of a request that is not tried again, because of cause.
func (f *search) giveUp(cause error) error {
	closed := errors.Is(cause, ErrClosed)
	if !errors.Is(f.last, cause) && !errors.Is(f.last, ErrNoLeader) {
		cause = fmt.Errorf("%w: %w", cause, f.last)
	}
	switch {
	case f.unknown:
		return &UnknownError{ID: f.id, Err: cause}
	case closed:
		return ErrClosed
	}
	to, _, _ := f.leader()
	all, unreachable := f.voters()
	return &UnavailableError{Leader: to.Address, Voters: all, Unreachable: unreachable, Err: cause}
}

// attempt asks one leader, until it is believed to be another: a call to a node
// that is cut off would not end by itself.
func attempt(ctx context.Context, changed <-chan struct{}, to Leader, there func(context.Context, Leader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-changed:
			select {
			case <-time.After(leastTry):
			case <-ended:
			}
			cancel(fmt.Errorf("%s may lead no longer", to.Address))
		case <-ended:
		}
	}()
	return there(ctx, to)
}

// newRequestID draws an id that no other request has.
func newRequestID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it would end the process
	return hex.EncodeToString(b[:])
}

// propose, trial and read are the requests of a node with a store.
type requests struct {
	route
	store  *kv.Store
	remote Remote
}

func (r requests) propose(ctx context.Context, t kv.Txn, here func(context.Context, kv.Txn) (kv.Result, error)) (result kv.Result, err error) {
	t.ID = cmp.Or(t.ID, newRequestID())
	err = r.follow(ctx, r.steps(t.ID,
		func(ctx context.Context) error { result, err = here(ctx, t); return err },
		func(ctx context.Context, to Leader) error { result, err = r.remote.Propose(ctx, to, t); return err },
	))
	if err != nil {
		return kv.Result{}, err
	}
	return result, nil
}

func (r requests) trial(ctx context.Context, t kv.Txn, here func(context.Context, kv.Txn) (kv.Result, error)) (result kv.Result, err error) {
	err = r.follow(ctx, r.steps("",
		func(ctx context.Context) error { result, err = here(ctx, t); return err },
		func(ctx context.Context, to Leader) error { result, err = r.remote.Trial(ctx, to, t); return err },
	))
	if err != nil {
		return kv.Result{}, err
	}
	return result, nil
}

// read gives a view of this node's store that holds all that was acknowledged
// before the call, anywhere.
func (r requests) read(ctx context.Context, here func(context.Context) (kv.Rev, error)) (kv.View, error) {
	var rev kv.Rev
	err := r.follow(ctx, r.steps("",
		func(ctx context.Context) (err error) { rev, err = here(ctx); return err },
		func(ctx context.Context, to Leader) (err error) { rev, err = r.remote.Read(ctx, to); return err },
	))
	if err != nil {
		return kv.View{}, err
	}
	return reached(ctx, r.store, rev)
}

// steps leaves out the remote one on a node that has no Remote.
func (r requests) steps(id string, here func(context.Context) error, there func(context.Context, Leader) error) steps {
	if r.remote == nil {
		there = nil
	}
	return steps{id: id, here: here, there: there}
}

// reached waits until a store has reached a revision, and gives its view.
func reached(ctx context.Context, store *kv.Store, rev kv.Rev) (kv.View, error) {
	for {
		changed := store.Changed()
		if view := store.View(); view.Rev().Compare(rev) >= 0 {
			return view, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return kv.View{}, fmt.Errorf("this node is at revision %s, the leader at %s: %w", store.View().Rev(), rev, ctx.Err())
		}
	}
}
