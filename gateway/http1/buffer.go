package http1

import (
	"sync"

	"grapevine/gateway/exchange"
)

const (
	// turnPage is enough for most heads of requests.
	turnPage = 8 << 10
	// pageSize is enough for most messages that are sent on.
	pageSize = 14 << 10
	// largeSize holds the largest head with some of what follows, or a piece of a
	// body.
	largeSize = MaxHead + turnPage
)

// buffer is memory that is handed around.
type buffer struct{ b [largeSize]byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// page is memory for a message on its way: it is held while that is made, or has
// begun to come, and not while somebody is waited for. So the one that is taken next
// was used a moment before, and is still in the processor's caches.
type page struct {
	fields [pageFields]exchange.Field
	b      [pageSize]byte
}

// pageFields are as many as most responses have.
const pageFields = 32

var pages = sync.Pool{New: func() any { return new(page) }}

func (p *page) release() {
	spoil(p.b[:])
	pages.Put(p)
}

// poisoning has memory overwritten when it is given back, so that a test sees who
// still reads it. Tests set it before anything is served.
var poisoning bool

func spoil(b []byte) {
	if poisoning {
		for i := range b {
			b[i] = 0xdb
		}
	}
}

func (b *buffer) release() {
	spoil(b.b[:])
	buffers.Put(b)
}
