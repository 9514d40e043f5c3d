package gossip

import (
	"slices"
	"sync"
	"time"
)

// Bounds of what is kept to be pushed, and of one push.
const (
	maxFlood      = 1024
	maxFloodBytes = 1 << 20
	maxFloodPush  = 64
)

// flood is the latest changes of a plane in the order in which they came to be here.
// Links take from it at their own pace; for who falls behind its beginning there are
// pulls. So nothing queues up, however slow a neighbour is.
type flood struct {
	mu    sync.Mutex // guards what is below
	first uint64     // the number of the first change
	list  []floodChange
	bytes int
}

type floodChange struct {
	change []byte
	from   string // the full name of who sent it; empty if nobody did
	pulled bool
}

// add puts changes at the end.
func (f *flood) add(from string, list [][]byte, pulled bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, change := range list {
		f.list = append(f.list, floodChange{change, from, pulled})
		f.bytes += len(change)
	}
	drop := 0
	for len(f.list)-drop > maxFlood || f.bytes > maxFloodBytes {
		f.bytes -= len(f.list[drop].change)
		drop++
	}
	f.first += uint64(drop)
	f.list = slices.Delete(f.list, 0, drop)
}

// end is the number that the next change will have.
func (f *flood) end() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first + uint64(len(f.list))
}

// after gives some changes from a number on, and the number after the last: without those that a
// member sent itself, and those that were pulled unless they are asked for. ok is
// false if some are gone.
func (f *flood) after(number uint64, member string, pulled bool) (list [][]byte, next uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number < f.first {
		return nil, f.first + uint64(len(f.list)), false
	}
	for next = number; next < f.first+uint64(len(f.list)) && len(list) < maxFloodPush; next++ {
		if c := f.list[next-f.first]; c.from != member && (pulled || !c.pulled) {
			list = append(list, c.change)
		}
	}
	return list, next, true
}

// Of pulls that a differing digest starts.
const (
	// pastDigests is how many digests a node remembers that it had: who has one of them is
	// behind, and has to pull itself.
	pastDigests = 256
	// planePause is the least time between two pulls that nothing but a digest
	// started; it doubles, up to planePauseMost, as long as they bring nothing: while
	// changes are under way all digests differ.
	planePause     = 200 * time.Millisecond
	planePauseMost = time.Second
)

// course is how a Peer spreads one plane.
type course struct {
	Plane
	flood flood

	mu    sync.Mutex // guards what is below
	past  [pastDigests]uint64
	last  int // in past
	pause time.Duration
	next  time.Time // when a digest may start a pull
}

// remember notes the digest of now.
func (c *course) remember() {
	now := c.Digest()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.past[c.last] != now {
		c.last = (c.last + 1) % pastDigests
		c.past[c.last] = now
	}
}

// had tells whether this node had a digest a while ago.
func (c *course) had(digest uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.past[:], digest)
}

// mayPull grants a pull that nothing but a digest starts.
func (c *course) mayPull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !time.Now().Before(c.next)
}

// pulled tells whether a pull brought something.
func (c *course) pulled(something bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = min(2*c.pause, planePauseMost)
	if something {
		c.pause = planePause
	}
	c.pause = max(c.pause, planePause)
	c.next = time.Now().Add(jitter(c.pause))
}
