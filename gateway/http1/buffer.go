package http1

import "sync"

const (
	// turnPage is enough for most heads, and for most responses.
	turnPage = 8 << 10
	// largeSize holds the largest head with some of what follows, or a piece of a
	// body.
	largeSize = MaxHead + turnPage
)

// buffer is memory that is handed around.
type buffer struct{ b [largeSize]byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

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
