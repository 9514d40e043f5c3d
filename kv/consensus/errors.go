package consensus

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoLeader is what an UnavailableError is while a quorum may be there and
	// has not elected anybody, or nobody knows whom.
	ErrNoLeader = errors.New("no leader")
	// ErrNoQuorum is what an UnavailableError is when too few voters can be
	// reached to elect a leader.
	ErrNoQuorum = errors.New("no quorum")
	// ErrClosed is returned once a Raft was shut down.
	ErrClosed = errors.New("raft is shut down")
	// ErrHasState is returned by Bootstrap on a node that has, or had, a part in a
	// cluster: bootstrapping it would fork that.
	ErrHasState = errors.New("this node has a part in a cluster already")
	// ErrRejoin is returned by Open when the node must not vote under its server
	// id any more: its log is damaged or gone, or its store is ahead of it. It may
	// rejoin with an empty folder (see Archive), as a learner and under a new
	// server id.
	ErrRejoin = errors.New("this node has to rejoin under a new server id")
	// ErrNotMember is returned for a server that is not in raft's configuration.
	ErrNotMember = errors.New("not in raft's configuration")
)

// NotLeaderError says that a node does not lead, or not in the term that was
// meant, and did nothing.
type NotLeaderError struct {
	// Leader is who leads instead, as far as the node knows.
	Leader Leader
}

func (e *NotLeaderError) Error() string {
	if e.Leader.Address == "" {
		return "this node does not lead and knows nobody who does"
	}
	return fmt.Sprintf("this node does not lead in that term; the leader of term %d is %s", e.Leader.Term, e.Leader.Address)
}

// UnreachableError says that a node could not be asked: nothing was sent.
type UnreachableError struct {
	Address string
	Err     error
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("node %s: %v", e.Address, e.Err) }
func (e *UnreachableError) Unwrap() error { return e.Err }

// UnavailableError says that no leader took a request before its context ended.
// It is ErrNoQuorum or ErrNoLeader, and the context's error. Nothing was changed.
type UnavailableError struct {
	// Leader is the address of whom this node took for the leader, "" for nobody.
	Leader string
	// Voters and Unreachable are server ids: all that vote, and those of them
	// that this node has not heard of lately.
	Voters, Unreachable []string
	// Err is the last failure, and the context's error.
	Err error
}

// hasQuorum reports whether enough voters can be reached.
func (e *UnavailableError) hasQuorum() bool {
	return len(e.Voters)-len(e.Unreachable) >= len(e.Voters)/2+1
}

func (e *UnavailableError) Error() string {
	if e.hasQuorum() || len(e.Voters) == 0 {
		return fmt.Sprintf("no leader took the request (last known: %q): %v", e.Leader, e.Err)
	}
	return fmt.Sprintf("no quorum: %d of %d voters can be reached, not %s: %v",
		len(e.Voters)-len(e.Unreachable), len(e.Voters), strings.Join(e.Unreachable, ", "), e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Is tells ErrNoQuorum from ErrNoLeader.
func (e *UnavailableError) Is(target error) bool {
	if target == ErrNoQuorum {
		return !e.hasQuorum() && len(e.Voters) > 0
	}
	return target == ErrNoLeader && (e.hasQuorum() || len(e.Voters) == 0)
}

// UnknownError says that nobody knows whether a write happened: whoever had it
// did not answer. It may be asked again, with the same request id, and is then not
// done twice.
type UnknownError struct {
	ID  string // the request's id
	Err error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("it is not known whether the write with request id %q was done: %v", e.ID, e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// RefusedError is a refusal by the leader's check, or by its disk, of which this
// node knows no more than the text.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }

// notDoneError says that the leader did nothing, for want of time or because it is
// about to be none.
type notDoneError struct{ text string }

func (e *notDoneError) Error() string { return e.text }
