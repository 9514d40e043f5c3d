package api

import (
	"fmt"
	"strings"
)

// NoQuorumError says that no leader took a request. Nothing was changed.
type NoQuorumError struct {
	// Leader is the name of whom the node took for the leader, empty for nobody.
	Leader string
	// Voters is how many nodes vote, and Unreachable the names of those that were not heard of.
	Voters      int
	Unreachable []string
}

func (e *NoQuorumError) Error() string {
	reachable := e.Voters - len(e.Unreachable)
	voters := fmt.Sprintf("%d of %d voters can be reached", reachable, e.Voters)
	if len(e.Unreachable) > 0 {
		voters += ", not " + strings.Join(e.Unreachable, ", ")
	}
	last := "nobody is known to lead"
	if e.Leader != "" {
		last = "the last leader is " + e.Leader
	}
	if e.Voters > 0 && reachable <= e.Voters/2 {
		return fmt.Sprintf("no quorum: %s, and %d are needed; %s", voters, e.Voters/2+1, last)
	}
	return fmt.Sprintf("no leader took the request in time: %s; %s", voters, last)
}

// UnknownOutcomeError says that nobody knows whether a change happened: whoever had it did not answer.
type UnknownOutcomeError struct{ Err error }

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("nobody answered who knows whether it was done: %v", e.Err)
}

func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// NotFoundError says that there is no such thing.
type NotFoundError struct {
	// What is what was looked for, as node or token, and Name its name or id.
	What, Name string
	// Among, where it isn't empty, is what there is instead, for people.
	Among []string
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("%s %q: there is none", e.What, e.Name)
	if len(e.Among) > 0 {
		text += "; known are " + strings.Join(e.Among, ", ")
	}
	return text
}

// RefusedError says why something is not done though it was understood. Nothing was changed.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// UnreachableError says that a node can't be asked. Nothing was sent.
type UnreachableError struct {
	Node string
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("node %q: can't be reached: %v", e.Node, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// FindMember returns the member with this name or id. It is a *NotFoundError where there is none, and a *RefusedError
// where several have the name. A node that lives wins over others of its name that are gone.
func FindMember(members []Member, node string) (Member, error) {
	var named []Member
	for _, m := range members {
		if m.ID == node {
			return m, nil
		}
		if m.Node == node {
			named = append(named, m)
		}
	}
	live := named
	if len(named) > 1 {
		live = onlyLive(named)
	}
	switch len(live) {
	case 1:
		return live[0], nil
	case 0:
		if len(named) == 0 {
			return Member{}, &NotFoundError{What: "node", Name: node, Among: namesOf(members)}
		}
		live = named
	}
	ids := make([]string, len(live))
	for i, m := range live {
		ids[i] = m.ID
	}
	return Member{}, &RefusedError{Reason: fmt.Sprintf("node %q: several have the name; use an id: %s", node, strings.Join(ids, ", "))}
}

func namesOf(members []Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Node
	}
	return names
}
