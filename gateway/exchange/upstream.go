package exchange

import (
	"errors"
	"fmt"
)

// ErrTimeout is an attempt that one of its bounds ended: the wait for a
// connection, for the head, or the silence between bytes of a body.
var ErrTimeout = errors.New("timed out")

// Phase tells how far an attempt had come when it failed; what may be tried
// again depends on it.
type Phase int

// The phases of an attempt, in order.
const (
	// PhaseConnect: no connection, so no byte of the request was sent.
	PhaseConnect Phase = iota
	// PhaseExchange: the request was, or may have been, sent in part.
	PhaseExchange
	// PhaseTimeout: the response's head did not come in time.
	PhaseTimeout
	// PhaseRequestBody: the client's body could not be read to its end.
	PhaseRequestBody
	// PhaseClientGone: the client left while the attempt was under way.
	PhaseClientGone
	// PhaseRecalled: it was ended from outside, its client being there still.
	PhaseRecalled

	// Phases is how many there are.
	Phases = iota
)

var phaseNames = [...]string{"connect", "exchange", "timeout", "request_body", "client_gone", "recalled"}

// String is the phase's name in logs and metrics.
func (p Phase) String() string { return phaseNames[p] }

// AttemptError is a failed attempt at a destination.
type AttemptError struct {
	Phase       Phase
	Destination string
	Err         error
}

func (e *AttemptError) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Destination, e.Phase, e.Err)
}

func (e *AttemptError) Unwrap() error { return e.Err }
