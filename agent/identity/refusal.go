package identity

import (
	"fmt"
	"net/http"
)

// Reason says why a join was refused.
type Reason string

// The reasons.
const (
	ReasonRequest  Reason = "bad-request"   // the request makes no sense
	ReasonCluster  Reason = "wrong-cluster" // the token is of another cluster
	ReasonUnknown  Reason = "unknown-token" // revoked, or not heard of here yet
	ReasonExpired  Reason = "expired"       // the token's time is over
	ReasonUsedUp   Reason = "used-up"       // the token's uses are taken
	ReasonRole     Reason = "role"          // an edge's token asked for a voter
	ReasonClock    Reason = "clock"         // the clocks differ too much
	ReasonRevoked  Reason = "revoked"       // the node was put out of the cluster
	ReasonTaken    Reason = "taken"         // another key has the node's id
	ReasonVoter    Reason = "ask-a-voter"   // this node can't decide, and no voter could be asked
	ReasonNoQuorum Reason = "no-quorum"     // the voters could not agree now
	ReasonBusy     Reason = "busy"          // too many joins at once
	ReasonFault    Reason = "fault"         // the voter's own
)

// Refusal is the error of a join that was refused.
type Refusal struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

func (r *Refusal) Error() string { return r.Message }

// Final reports whether asking again can't help.
func (r *Refusal) Final() bool {
	switch r.Reason {
	case ReasonUnknown, ReasonVoter, ReasonNoQuorum, ReasonBusy, ReasonFault:
		return false
	}
	return true
}

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// status is the refusal's HTTP status.
func (r *Refusal) status() int {
	switch r.Reason {
	case ReasonRequest:
		return http.StatusBadRequest
	case ReasonTaken:
		return http.StatusConflict
	case ReasonVoter, ReasonNoQuorum, ReasonBusy:
		return http.StatusServiceUnavailable
	case ReasonFault:
		return http.StatusInternalServerError
	}
	return http.StatusForbidden
}
