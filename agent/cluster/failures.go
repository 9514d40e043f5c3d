package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"

	"grapevine/agent/api"
	"grapevine/gateway/spec"
	"grapevine/kv/consensus"
)

// discardLog is for servers whose handshakes are logged elsewhere.
var discardLog = log.New(io.Discard, "", 0)

// failure is an error on its way to another node.
type failure struct {
	Kind        string      `json:"kind"`
	Message     string      `json:"message"`
	Leader      *leaderNews `json:"leader,omitempty"` // of not-leader
	What        string      `json:"what,omitempty"`   // of not-found, and so on
	Name        string      `json:"name,omitempty"`
	Among       []string    `json:"among,omitempty"`
	Last        string      `json:"last,omitempty"` // of no-quorum, and so on
	Voters      int         `json:"voters,omitempty"`
	Unreachable []string    `json:"unreachable,omitempty"`
}

const (
	kindNotLeader   = "not-leader"
	kindNotFound    = "not-found"
	kindRefused     = "refused"
	kindNoQuorum    = "no-quorum"
	kindUnknown     = "unknown-outcome"
	kindUnreachable = "unreachable"
	kindOther       = "other"
)

func writeFailure(w http.ResponseWriter, err error) {
	f := failure{Kind: kindOther, Message: err.Error()}
	var (
		notLeader   *errNotLeader
		notFound    *api.NotFoundError
		refused     *api.RefusedError
		quorum      *api.NoQuorumError
		unknown     *api.UnknownOutcomeError
		unreachable *api.UnreachableError
	)
	switch {
	case errors.As(err, &notLeader):
		f.Kind, f.Leader = kindNotLeader, &notLeader.leader
	case errors.As(err, &notFound):
		f.Kind, f.What, f.Name, f.Among = kindNotFound, notFound.What, notFound.Name, notFound.Among
	case errors.As(err, &refused):
		f.Kind, f.Message = kindRefused, refused.Reason
	case errors.As(err, &quorum):
		f.Kind, f.Last, f.Voters, f.Unreachable = kindNoQuorum, quorum.Leader, quorum.Voters, quorum.Unreachable
	case errors.As(err, &unknown):
		f.Kind, f.Message = kindUnknown, unknown.Err.Error()
	case errors.As(err, &unreachable):
		f.Kind, f.Name, f.Message = kindUnreachable, unreachable.Node, unreachable.Err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(f) // who is gone does not hear it
}

// callError is an answer that is an error which has no type here.
type callError struct{ message string }

func (e *callError) Error() string { return e.message }

func readFailure(status int, data []byte) error {
	var f failure
	if status != http.StatusConflict || json.Unmarshal(data, &f) != nil {
		return fmt.Errorf("status %d: %.200s", status, data)
	}
	switch f.Kind {
	case kindNotLeader:
		e := &errNotLeader{}
		if f.Leader != nil {
			e.leader = *f.Leader
		}
		return e
	case kindNotFound:
		return &api.NotFoundError{What: f.What, Name: f.Name, Among: f.Among}
	case kindRefused:
		return &api.RefusedError{Reason: f.Message}
	case kindNoQuorum:
		return &api.NoQuorumError{Leader: f.Last, Voters: f.Voters, Unreachable: f.Unreachable}
	case kindUnknown:
		return &api.UnknownOutcomeError{Err: errors.New(f.Message)}
	case kindUnreachable:
		return &api.UnreachableError{Node: f.Name, Err: errors.New(f.Message)}
	}
	return &callError{f.Message}
}

func asNotLeader(err error) (leaderNews, bool) {
	var other *errNotLeader
	if errors.As(err, &other) {
		return other.leader, true
	}
	return leaderNews{}, false
}

// isAnswer tells what another node said from its silence.
func isAnswer(err error) bool {
	if _, moved := asNotLeader(err); moved {
		return false
	}
	var (
		notFound *api.NotFoundError
		refused  *api.RefusedError
		quorum   *api.NoQuorumError
		unknown  *api.UnknownOutcomeError
		call     *callError
	)
	return errors.As(err, &notFound) || errors.As(err, &refused) || errors.As(err, &quorum) || errors.As(err, &unknown) || errors.As(err, &call)
}

// noLeader says that no leader answered.
func (m *member) noLeader(last error) error {
	voters, unreachable := m.voters()
	e := &api.NoQuorumError{Leader: m.nameOf(m.lead.news().Node), Voters: len(voters), Unreachable: m.names(unreachable)}
	if last == nil {
		return e
	}
	return fmt.Errorf("%w (%v)", e, last)
}

// told gives an error of consensus as the API knows it.
func (m *member) told(err error) error {
	var (
		unavailable *consensus.UnavailableError
		unknown     *consensus.UnknownError
		refused     *consensus.RefusedError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return &api.UnknownOutcomeError{Err: unknown.Err}
	case errors.As(err, &unavailable):
		return &api.NoQuorumError{
			Leader: m.nameOfAddress(unavailable.Leader), Voters: len(unavailable.Voters), Unreachable: m.names(unavailable.Unreachable),
		}
	case errors.As(err, &refused):
		return &api.RefusedError{Reason: refused.Message}
	case errors.Is(err, consensus.ErrClosed):
		return &api.RefusedError{Reason: "this node is stopping"}
	}
	return err
}

// errorCodec carries faults from the leader's check to who proposed.
type errorCodec struct{}

const kindFaults = "faults"

// EncodeError: see consensus.ErrorCodec.
func (errorCodec) EncodeError(err error) (kind string, detail []byte, ok bool) {
	var faults spec.Faults
	var fault spec.Fault
	switch {
	case errors.As(err, &faults):
	case errors.As(err, &fault):
		faults = spec.Faults{fault}
	default:
		return "", nil, false
	}
	detail, err = json.Marshal(faults)
	return kindFaults, detail, err == nil
}

// DecodeError: see consensus.ErrorCodec.
func (errorCodec) DecodeError(kind string, detail []byte) (error, bool) {
	var faults spec.Faults
	if kind != kindFaults || json.Unmarshal(detail, &faults) != nil || len(faults) == 0 {
		return nil, false
	}
	return faults, true
}

// bounded is ctx with a bound where it has none.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callPatience)
}
