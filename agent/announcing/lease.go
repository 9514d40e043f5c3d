package announcing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Who drains an instance.
const (
	ByClient   = "client"
	ByOperator = "operator"
)

// Lease is an announced instance and the connection that holds it. Its fields are guarded by the mutex of the Leases.
type Lease struct {
	leases       *Leases
	id           string
	announcement Announcement
	token        string
	out          *outbox

	// said is the status that the client gave, and taken what the agent makes of it.
	said, taken string
	pulse       pulse
	numbers     Numbers
	draining    string // by whom; empty: it is not
	handshake   *handshake
	ended       bool

	mark    kv.OwnerMark // of its newest change
	applied Applied      // what was told last
}

// Numbers are what a client tells of its instance. They stay at this node.
type Numbers struct {
	InFlight  int64   `json:"inFlight" doc:"requests under way, as the instance counts them"`
	ErrorRate float64 `json:"errorRate" doc:"share of failures, from 0 to 1, as the instance counts them"`
}

// State is what the agent holds of a lease.
type State struct {
	Lease      string `json:"lease" doc:"the lease"`
	Key        string `json:"key" doc:"the key that it holds"`
	Status     string `json:"status" doc:"what the agent takes the instance for: healthy, degraded, unhealthy, or draining"`
	DrainingBy string `json:"drainingBy,omitempty" doc:"client or operator"`
	Numbers
}

// Next waits for the next event. The error is ctx's.
func (l *Lease) Next(ctx context.Context) (Event, error) { return l.out.next(ctx) }

// Key is the key that the lease holds.
func (l *Lease) Key() kv.Key { return l.announcement.Key }

// State is what the agent holds of it now.
func (l *Lease) State() State {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	s := State{Lease: l.id, Key: string(l.announcement.Key), Status: l.taken, DrainingBy: l.draining, Numbers: l.numbers}
	if l.draining != "" {
		s.Status = statusDraining
	}
	return s
}

// Close ends the lease because its connection has ended: the instance is withdrawn at once, unless another connection has
// it by now, or the agent stops.
func (l *Lease) Close() {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	if !l.ended {
		l.withdraw("its connection has ended")
	}
}

// Withdraw ends the lease because its client says so.
func (l *Lease) Withdraw() {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	if !l.ended {
		l.withdraw("its client asked for it")
	}
}

// withdraw takes the key away.
func (l *Lease) withdraw(reason string) {
	l.end(Ended{EventWithdrawn, reason})
	_ = l.leases.o.Own.Withdraw(l.announcement.Key) // taking away needs nothing that could fail
	l.leases.o.Logger.Info("instance is withdrawn", "key", string(l.announcement.Key), "reason", reason)
}

// end ends the lease and leaves its key as it is.
func (l *Lease) end(why Ended) {
	l.ended = true
	l.pulse.stop()
	l.calm()
	delete(l.leases.byID, l.id)
	if l.leases.byKey[l.announcement.Key] == l {
		delete(l.leases.byKey, l.announcement.Key)
	}
	l.out.put(why)
}

// write announces the instance as it is now.
func (l *Lease) write() error {
	own, key := l.leases.o.Own, l.announcement.Key
	put := own.Put
	if l.draining != "" {
		put = own.PutDraining
	}
	err := put(key, l.value())
	l.mark = own.Mark()
	l.leases.changed = l.mark
	return err
}

// value is the instance as it is stored. Draining by an operator is part of it, so that a restart does not undo it.
func (l *Lease) value() []byte {
	instance := l.announcement.Instance
	switch {
	case l.draining == ByOperator:
		instance.Status = statusDraining
	case l.taken == statusHealthy:
		instance.Status = ""
	default:
		instance.Status = l.taken
	}
	return spec.Encode(&instance)
}

// Heartbeat is what a client tells of its instance; nil fields say nothing.
type Heartbeat struct {
	Status    *string  `json:"status,omitempty" doc:"healthy, degraded or unhealthy. The first one begins the rule: without a heartbeat for twice its interval the instance is degraded, for three times unhealthy"`
	Weight    *int     `json:"weight,omitempty" doc:"its share from now on"`
	InFlight  *int64   `json:"inFlight,omitempty" doc:"requests under way"`
	ErrorRate *float64 `json:"errorRate,omitempty" doc:"share of failures, from 0 to 1"`
}

// maxWeight is the range of spec.Instance.
const maxWeight = 1_000_000

func (h Heartbeat) check() error {
	var problems []error
	problem := func(format string, values ...any) { problems = append(problems, fmt.Errorf(format, values...)) }
	if s := h.Status; s != nil && *s != statusHealthy && *s != statusDegraded && *s != statusUnhealthy {
		problem("status %.40q: is not healthy, degraded or unhealthy", *s)
	}
	if w := h.Weight; w != nil && (*w < 0 || *w > maxWeight) {
		problem("weight %d: is not from 0 to %d", *w, maxWeight)
	}
	if n := h.InFlight; n != nil && *n < 0 {
		problem("inFlight %d: is below zero", *n)
	}
	if r := h.ErrorRate; r != nil && !(*r >= 0 && *r <= 1) {
		problem("errorRate %v: is not from 0 to 1", *r)
	}
	return errors.Join(problems...)
}

// InvalidError is what is wrong with a heartbeat.
type InvalidError struct{ error }

// Beat takes in a heartbeat and returns the status that the instance has then. Errors: an *InvalidError, a *NoLeaseError, or
// those of kv.Own; then nothing has changed.
func (l *Lease) Beat(h Heartbeat) (string, error) {
	if err := h.check(); err != nil {
		return "", &InvalidError{err}
	}
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	if l.ended {
		return "", &NoLeaseError{"the lease has ended"}
	}
	said, weight, taken := l.said, l.announcement.Instance.Weight, l.taken
	if h.Weight != nil {
		l.announcement.Instance.Weight = h.Weight
	}
	if h.Status != nil {
		l.said = *h.Status
	}
	if err := l.take(l.said, "its client says so"); err != nil {
		l.said, l.announcement.Instance.Weight, l.taken = said, weight, taken
		return "", err
	}
	if h.InFlight != nil {
		l.numbers.InFlight = *h.InFlight
	}
	if h.ErrorRate != nil {
		l.numbers.ErrorRate = *h.ErrorRate
	}
	l.pulse.beat(l, h.Status != nil)
	if l.draining != "" {
		return statusDraining, nil
	}
	return l.taken, nil
}

// take takes the instance for something, and announces what has changed.
func (l *Lease) take(status, reason string) error {
	changed := status != l.taken
	l.taken = status
	if err := l.write(); err != nil {
		return err
	}
	l.leases.receipts.want()
	if changed {
		if l.draining == "" { // whoever puts it back tells what it is then
			l.out.put(StatusChange{EventStatus, status, reason})
		}
		l.leases.o.Logger.Info("instance is "+status, "key", string(l.announcement.Key), "reason", reason)
	}
	return nil
}

// interval is how often the client means to send heartbeats.
func (l *Lease) interval() time.Duration {
	if every := time.Duration(l.announcement.Instance.Heartbeat); every > 0 {
		return every
	}
	return defaultHeartbeat
}
