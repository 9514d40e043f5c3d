package health

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"grapevine/gateway/spec"
)

// Policy says how a group's members are judged. It is comparable.
type Policy struct {
	// Asked tells whether members are asked; Check is how, without an address.
	Asked bool
	Check Check
	// Probers is how many nodes ask for all; 0: each asks for itself.
	Probers int
	// Failures in a row take a member out, 0 is never. The first time it is for
	// EjectFor, and never more than MaxPercent of the members are out.
	Failures   int
	EjectFor   time.Duration
	MaxPercent int
	// Statuses are the answers that count as failures of requests.
	Statuses Statuses
}

// Statuses is a set of status codes. The zero set is empty.
type Statuses [10]uint64

// Has tells whether a code is in the set. Codes from 640 on are in none.
func (s *Statuses) Has(code int) bool {
	return uint(code) < 64*uint(len(s)) && s[code/64]&(1<<(code%64)) != 0
}

// NewStatuses makes a set of codes.
func NewStatuses(codes []spec.Status) (s Statuses) {
	for _, code := range codes {
		s[code/64] |= 1 << (code % 64)
	}
	return s
}

// PolicyOf is what a cluster's health says, with the defaults. Passive ejection
// is on unless it is switched off: a host that is gone must not cost one request
// after the other the wait for a connection.
func PolicyOf(h *spec.Health) Policy {
	if h == nil {
		h = &spec.Health{}
	}
	var p Policy
	if passive := h.Passive; passive == nil {
		p.setPassive(&spec.PassiveHealth{})
	} else if passive.Enabled == nil || *passive.Enabled {
		p.setPassive(passive)
	}
	if h.Active != nil {
		p.Asked, p.Check = true, checkOf(h.Active)
		p.Probers = cmp.Or(h.Active.Probers, spec.DefaultProbers)
	}
	return p
}

func (p *Policy) setPassive(passive *spec.PassiveHealth) {
	p.Failures = cmp.Or(passive.ConsecutiveFailures, spec.DefaultConsecutiveFailures)
	p.EjectFor = time.Duration(cmp.Or(passive.EjectFor, spec.DefaultEjectFor))
	p.MaxPercent = cmp.Or(passive.MaxEjectedPercent, spec.DefaultMaxEjectedPercent)
	codes := passive.FailureStatus
	if codes == nil {
		codes = spec.DefaultFailureStatus()
	}
	p.Statuses = NewStatuses(codes)
}

func checkOf(a *spec.ActiveHealth) Check {
	interval := cmp.Or(a.Interval, spec.DefaultHealthInterval)
	var statuses []string
	for _, status := range a.Status {
		statuses = append(statuses, strconv.Itoa(int(status)))
	}
	return Check{
		Path: string(a.Path), Host: string(a.Host), Statuses: strings.Join(statuses, ","),
		Interval: time.Duration(interval),
		Timeout:  time.Duration(cmp.Or(a.Timeout, min(spec.DefaultHealthTimeout, interval))),
		Rise:     cmp.Or(a.HealthyAfter, spec.DefaultHealthyAfter),
		Fall:     cmp.Or(a.UnhealthyAfter, spec.DefaultUnhealthyAfter),
	}
}

// at is the check of one address.
func (c Check) at(address string) Check {
	c.Address = address
	return c
}

const (
	returnEvery  = 10 * time.Second
	returnWithin = 2 * time.Second
)

// returning is what an ejected member has to pass to be used again where nothing
// asks it anyway: a connection.
func (p *Policy) returning(address string) Check {
	every := min(p.EjectFor, returnEvery)
	return Check{Address: address, Interval: every, Timeout: min(returnWithin, every), Rise: 1, Fall: 1}
}
