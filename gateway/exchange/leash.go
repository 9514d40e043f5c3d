package exchange

import "net/netip"

// Leash lets an exchange that is under way be ended from outside, by what it is
// for and whose it is. It is the front's.
type Leash interface {
	// Hold says what the exchange is for, until it ends. A later call takes the
	// place of an earlier one.
	Hold(by any, client netip.Addr)
	// Recalled tells whether the exchange was ended from outside.
	Recalled() bool
}

// Hold says what the exchange is for, to whoever may end it before it is done. by
// should be a pointer, which costs no memory.
func (x *Exchange) Hold(by any) {
	if x.Leash != nil {
		x.Leash.Hold(by, x.Request.Client)
	}
}

// Recalled tells whether the exchange was ended from outside, its client being
// there still.
func (x *Exchange) Recalled() bool { return x.Leash != nil && x.Leash.Recalled() }

// Ended is the phase of an attempt that ended since the exchange's context did.
func (x *Exchange) Ended() Phase {
	if x.Recalled() {
		return PhaseRecalled
	}
	return PhaseClientGone
}
