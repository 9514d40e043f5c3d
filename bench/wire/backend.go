//go:build linux

package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"syscall"
)

// Bodies are the sizes that a backend answers with, by the last segment of the path.
var Bodies = []struct {
	Name string
	Size int
}{{"100", 100}, {"1k", 1 << 10}, {"64k", 64 << 10}, {"1m", 1 << 20}}

// maxRequest bounds the head of a request with all that a proxy adds.
const maxRequest = 16 << 10

type backend struct {
	poller    *poller
	listener  int
	responses map[string][]byte
	conns     table[backendConn]
}

type backendConn struct {
	fd   int
	in   []byte // what is left of requests not yet answered
	out  []byte // the rest of the response that is being sent
	full bool   // the socket takes no more at present
}

// Backend answers GET requests at port until the process ends. An unknown last segment gets 100 bytes.
func Backend(port int) error {
	runtime.LockOSThread()
	listener, err := listen(port)
	if err != nil {
		return err
	}
	poller, err := newPoller()
	if err != nil {
		return err
	}
	if err := poller.add(listener); err != nil {
		return err
	}
	b := &backend{poller: poller, listener: listener, responses: map[string][]byte{}}
	for _, body := range Bodies {
		b.responses[body.Name] = response(body.Size)
	}
	return b.run()
}

// response has the fields that a service usually sends.
func response(size int) []byte {
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: backend\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\n"+
		"Content-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\nCache-Control: no-store\r\n"+
		"ETag: \"5d8c72a5edda8d6a\"\r\nVary: Accept-Encoding\r\n\r\n", size)
	return append([]byte(head), bytes.Repeat([]byte{'x'}, size)...)
}

func (b *backend) run() error {
	for {
		ready, err := b.poller.wait(-1)
		if err != nil {
			return err
		}
		for _, event := range ready {
			if int(event.Fd) == b.listener {
				b.accept()
			} else if c := b.conns.at(int(event.Fd)); c != nil && b.serve(c, event.Events) != nil {
				b.conns[c.fd] = nil
				syscall.Close(c.fd)
			}
		}
	}
}

func (b *backend) accept() {
	for {
		fd, ok := accept(b.listener)
		if !ok {
			return
		}
		if err := b.poller.add(fd); err != nil {
			syscall.Close(fd)
			continue
		}
		b.conns.put(fd, &backendConn{fd: fd, in: make([]byte, 0, maxRequest)})
	}
}

func (b *backend) serve(c *backendConn, events uint32) error {
	if events&syscall.EPOLLOUT != 0 {
		if err := b.flush(c); err != nil {
			return err
		}
	}
	if events&^syscall.EPOLLOUT != 0 {
		n, err := receive(c.fd, c.in[len(c.in):cap(c.in)])
		if err != nil {
			return err
		}
		c.in = c.in[:len(c.in)+n]
	}
	return b.answer(c)
}

// answer serves all whole requests, in order, as far as the socket takes the responses.
func (b *backend) answer(c *backendConn) error {
	for len(c.out) == 0 {
		end := bytes.Index(c.in, []byte("\r\n\r\n"))
		if end < 0 {
			if len(c.in) == cap(c.in) {
				return errTooLarge
			}
			return nil
		}
		c.out = b.responses[lastSegment(c.in[:end])]
		if c.out == nil {
			c.out = b.responses[Bodies[0].Name]
		}
		c.in = c.in[:copy(c.in, c.in[end+len("\r\n\r\n"):])]
		if err := b.flush(c); err != nil {
			return err
		}
	}
	return nil
}

var errTooLarge = fmt.Errorf("a request head of more than %d bytes", maxRequest)

// lastSegment is what is behind the last slash of the request's target.
func lastSegment(head []byte) string {
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	_, rest, _ := bytes.Cut(line, []byte(" "))
	target, _, _ := bytes.Cut(rest, []byte(" "))
	for _, body := range Bodies { // gives a string without making one
		if tail, ok := bytes.CutSuffix(target, []byte(body.Name)); ok && bytes.HasSuffix(tail, []byte("/")) {
			return body.Name
		}
	}
	return ""
}

// flush sends the response, or what fits, and asks to be told when the rest does. Until then nothing is read.
func (b *backend) flush(c *backendConn) error {
	n, err := send(c.fd, c.out)
	if err != nil {
		return err
	}
	c.out = c.out[n:]
	if full := len(c.out) > 0; full != c.full {
		c.full = full
		return b.poller.watch(c.fd, !full, full)
	}
	return nil
}
