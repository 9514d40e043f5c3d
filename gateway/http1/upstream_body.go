package http1

import (
	"errors"
	"io"
	"net"
)

// directRead is from where on a read goes past the attempt's own memory.
const directRead = 4 << 10

// Stream is what the body of an upstream's response is. It is used by one
// goroutine at a time, and every way of reading can follow every other.
type Stream interface {
	io.ReadCloser
	// Buffered is the part of the body that is in memory as it came, which may be
	// none. A Read gives at most as much, and doesn't wait, when there is any.
	Buffered() []byte
	// Discard takes n bytes of Buffered as read.
	Discard(n int)
	// Begin gives the connection that the next left bytes of the body come from,
	// to be moved by its caller, within the bound for silence and without a byte
	// more; End says that n were moved. conn is nil when there is something in
	// memory, the body is not a plain one of known length, or the bound is under
	// 5 seconds. Nothing else may be called in between.
	Begin() (conn *net.TCPConn, left int64)
	End(n int64, err error)
}

var _ Stream = (*attempt)(nil)

// Read reads the response's body. An error other than io.EOF means that it broke
// off. The connection serves another exchange as soon as the last byte is read.
func (a *attempt) Read(p []byte) (int, error) {
	if a.err != nil || len(p) == 0 {
		return 0, a.err
	}
	var n int
	var err error
	switch a.body {
	case ByLength:
		n, err = a.readLength(p)
	case ByChunks:
		n, err = a.readChunks(p)
	case ByClose:
		n, err = a.readSome(p)
	default:
		err = io.EOF
	}
	if err != nil {
		a.finish(err)
	}
	if n > 0 {
		return n, nil
	}
	return 0, a.err
}

// finish ends the body: err is what every further Read says.
func (a *attempt) finish(err error) {
	if err != io.EOF {
		a.keep = false
		if a.link != nil {
			err = a.link.cause(err)
		}
	}
	a.err = err
	a.release()
}

func (a *attempt) readLength(p []byte) (int, error) {
	if a.left == 0 {
		return 0, io.EOF
	}
	n, err := a.readSome(p[:min(int64(len(p)), a.left)])
	return n, a.took(int64(n), err)
}

// took counts n bytes of a body by length, whose end or break it tells.
func (a *attempt) took(n int64, err error) error {
	a.left -= n
	switch {
	case a.left == 0:
		return io.EOF
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// readChunks decodes what is in memory, and reads large data past it.
func (a *attempt) readChunks(p []byte) (n int, err error) {
	for n == 0 && err == nil {
		if data := a.chunks.Data(); data > 0 && (len(p) >= directRead || a.from < a.to) {
			n, err = a.readSome(p[:min(int64(len(p)), data)])
			a.chunks.Skip(int64(n))
			break
		}
		if a.from == a.to {
			if err = a.refill(); err != nil {
				break
			}
		}
		var read int
		n, read, err = a.chunks.Decode(p, a.buf[a.from:a.to])
		if a.from += read; err == io.EOF {
			a.takeTrailers()
			return n, err
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// takeTrailers replaces the announced names by what came.
func (a *attempt) takeTrailers() {
	r := &a.x.Response
	r.Trailers = append(r.Trailers[:0], a.chunks.Trailers...)
}

// readSome reads from memory, or else from the connection: into p when that is
// large.
func (a *attempt) readSome(p []byte) (int, error) {
	if a.from == a.to && len(p) >= directRead {
		return a.readDirect(p)
	}
	if a.from == a.to {
		if err := a.refill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.buf[a.from:a.to])
	a.from += n
	return n, nil
}

// readDirect reads from the connection, within the bound for silence.
func (a *attempt) readDirect(p []byte) (int, error) {
	l := a.link
	l.awaitRead(a.bounds.Idle)
	n, err := l.read(p)
	if !l.rest() {
		return n, errLinkEnded
	}
	return n, err
}

// errLinkEnded stands for the cause that the link knows.
var errLinkEnded = errors.New("the connection was ended")

// refill reads into memory when all of it was read. The head stays in it.
func (a *attempt) refill() error {
	if len(a.buf)-a.bodyAt < directRead { // the head needs almost all of it
		a.buf, a.bodyAt = make([]byte, pageSize), 0
	}
	begin := a.bodyAt
	n, err := a.readDirect(a.buf[begin:])
	if a.from, a.to = begin, begin+n; n > 0 {
		return nil
	}
	return err
}

// Buffered: see Stream.
func (a *attempt) Buffered() []byte {
	switch {
	case a.err != nil || a.body == NoBody:
		return nil
	case a.body == ByClose:
		return a.buf[a.from:a.to]
	}
	left := a.left
	if a.body == ByChunks {
		left = a.chunks.Data()
	}
	return a.buf[a.from : a.from+int(min(int64(a.to-a.from), left))]
}

// Discard: see Stream.
func (a *attempt) Discard(n int) {
	a.from += n
	switch {
	case n == 0:
	case a.body == ByChunks:
		a.chunks.Skip(int64(n))
	case a.body == ByLength:
		if err := a.took(int64(n), nil); err != nil {
			a.finish(err)
		}
	}
}

// Begin: see Stream.
func (a *attempt) Begin() (conn *net.TCPConn, left int64) {
	if a.err != nil || a.from < a.to || a.body != ByLength || a.link == nil || a.bounds.Idle < coarseFrom {
		return nil, 0
	}
	if conn = a.link.tcp; conn != nil {
		a.link.taken.begin(a.link, a.bounds.Idle)
	}
	return conn, a.left
}

// End: see Stream.
func (a *attempt) End(n int64, err error) {
	if !a.link.taken.end(a.link) && err == nil {
		err = errLinkEnded
	}
	if err = a.took(n, err); err != nil {
		a.finish(err)
	}
}

// Close ends the exchange with the destination. It is called once, and nothing
// of the response may be used after it.
func (a *attempt) Close() error {
	if a.x == nil {
		return nil
	}
	if r := &a.x.Response; r.Body == io.ReadCloser(a) {
		r.Body = nil
	}
	a.end()
	return nil
}
