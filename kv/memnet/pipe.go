package memnet

import (
	"slices"
	"time"
)

// window is how many bytes may be under way or unread in one direction of a
// connection; who writes more has to wait.
const window = 256 << 10

// pipe is one direction of a connection: what one end sent and the other has not
// read yet, in order.
type pipe struct {
	net   *Network
	way   way
	to    *conn // the end that reads
	items []item
	bytes int
	last  time.Time // when the last item arrives
	// broken is when the reading end learns of a reset, the zero time if of none.
	broken  item
	changed event
}

// item is what travels: bytes, or an end of the stream, or a reset.
type item struct {
	arrival time.Time
	landed  bool // it had arrived when a way was blocked
	bytes   []byte
	end     bool
}

// send puts an item on its way, never before the one in front of it.
func (p *pipe) send(i item) {
	i.arrival = time.Now().Add(p.net.delay(p.way) + p.net.retransmission(p.way))
	if i.arrival.Before(p.last) {
		i.arrival = p.last
	}
	p.last = i.arrival
	p.items = append(p.items, i)
	p.bytes += len(i.bytes)
	p.changed.fire()
}

// arrived tells whether an item can be seen by the reading end.
func (p *pipe) arrived(i item) bool {
	return i.landed || !i.arrival.IsZero() && passed(i.arrival) && p.net.open(p.way)
}

// due is when the reading end has to look again, if nothing else happens.
func (p *pipe) due() time.Time {
	var due time.Time
	if len(p.items) > 0 && p.net.open(p.way) {
		due = p.items[0].arrival
	}
	return earliest(due, p.brokenDue())
}

func (p *pipe) brokenDue() time.Time {
	if !p.net.open(p.way) {
		return time.Time{}
	}
	return p.broken.arrival
}

// take reads arrived bytes; n is 0 when there are none. end reports that the
// stream is over.
func (p *pipe) take(b []byte) (n int, end bool) {
	for len(p.items) > 0 && p.arrived(p.items[0]) {
		first := &p.items[0]
		if first.end {
			return n, n == 0
		}
		taken := copy(b[n:], first.bytes)
		n += taken
		p.bytes -= taken
		first.bytes = first.bytes[taken:]
		if len(first.bytes) > 0 {
			break
		}
		p.items = slices.Delete(p.items, 0, 1)
	}
	if n > 0 {
		p.changed.fire()
	}
	return n, false
}

// unread reports whether bytes are here or under way.
func (p *pipe) unread() bool { return p.bytes > 0 }

// drop forgets what nobody will read.
func (p *pipe) drop() {
	p.items, p.bytes = nil, 0
	p.changed.fire()
}

// dropUnderWay loses what has not arrived, since its sender can't send it again.
func (p *pipe) dropUnderWay() {
	p.items = slices.DeleteFunc(p.items, func(i item) bool { return !i.landed })
	p.bytes = 0
	for _, i := range p.items {
		p.bytes += len(i.bytes)
	}
	if !p.broken.landed {
		p.broken = item{}
	}
}

// land marks what has arrived before the ways change.
func (p *pipe) land(now time.Time) {
	for i := range p.items {
		if !p.arrived(p.items[i]) {
			break
		}
		p.items[i].landed = true
	}
	p.broken.landed = p.arrived(p.broken)
}

// resend gives what could not arrive a new time, if the way is open now.
func (p *pipe) resend(now time.Time) {
	defer p.changed.fire()
	if !p.net.open(p.way) {
		return
	}
	again := func(i *item) {
		if !i.landed && !i.arrival.IsZero() && i.arrival.Before(now) {
			i.arrival = now.Add(p.net.delay(p.way))
		}
	}
	again(&p.broken)
	for i := range p.items {
		again(&p.items[i])
		if i > 0 && p.items[i].arrival.Before(p.items[i-1].arrival) {
			p.items[i].arrival = p.items[i-1].arrival
		}
		p.last = p.items[i].arrival
	}
}
