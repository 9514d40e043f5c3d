package http1

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// flow watches bytes that move from a link to a client inside the kernel, where
// no read tells that some came.
type flow struct {
	// idle is the bound in ticks while bytes move so, and 0 otherwise.
	idle     atomic.Int64
	received atomic.Uint64 // bytes that had come when it was last looked
}

// begin is called by the link's owner, who lets the kernel move bytes now.
func (f *flow) begin(l *link, idle time.Duration) {
	f.received.Store(received(l))
	f.idle.Store(ticks(idle))
	l.await(idle)
}

// end is false when the link was ended before.
func (f *flow) end(l *link) bool {
	f.idle.Store(0)
	return l.rest()
}

// more is how many ticks a wait that is late still has: none when bytes don't
// move in the kernel, or when none came since it began and none wait for a slow
// client.
func (f *flow) more(l *link) int64 {
	idle := f.idle.Load()
	if idle == 0 || l.raw == nil {
		return 0
	}
	if now := received(l); now != f.received.Swap(now) || waiting(l) {
		return idle
	}
	return 0
}

func received(l *link) (n uint64) {
	_ = l.raw.Control(func(fd uintptr) { // fails when it is closed, and nothing comes then
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Bytes_received
		}
	})
	return n
}

// waiting tells whether bytes lie in the link's receive queue.
func waiting(l *link) (some bool) {
	_ = l.raw.Control(func(fd uintptr) { // as above
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		some = err == nil && n > 0
	})
	return some
}
