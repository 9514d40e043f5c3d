package limit

import (
	"fmt"
	"io"

	"grapevine/gateway/exchange"
)

// BodyError is a body that is larger than it may be.
type BodyError struct{ Most int64 }

func (e *BodyError) Error() string { return fmt.Sprintf("the body is larger than %d bytes", e.Most) }

// body is a request's body of unknown length that ends with a *BodyError where it
// is too large.
type body struct {
	from io.Reader
	most int64
	left int64
	err  error // what every further Read says
}

// Body bounds a body to most bytes. The reader gives these, and a *BodyError in
// place of more: what is sent on of such a body must not look whole. It has what
// of from an upstream may use: what is in memory can be asked, and the body can
// begin anew.
func Body(from io.Reader, most int64) io.Reader {
	return &body{from: from, most: most, left: most}
}

// Read reads one byte more than is left, to know whether there is one.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.from.Read(p)
	if int64(n) > b.left {
		n, err = int(b.left), &BodyError{b.most}
	}
	b.left -= int64(n)
	b.err = err
	return n, err
}

// Buffered is how much is in memory, see exchange.Request. A body that is one byte
// too large may have its last byte there, which nobody gets.
func (b *body) Buffered() int {
	if from, ok := b.from.(interface{ Buffered() int }); ok && b.err == nil {
		return int(min(int64(from.Buffered()), b.left))
	}
	return 0
}

// Rewind begins anew, see exchange.Rewinder.
func (b *body) Rewind() bool {
	from, ok := b.from.(exchange.Rewinder)
	if !ok || b.err != io.EOF || !from.Rewind() {
		return false
	}
	b.left, b.err = b.most, nil
	return true
}
