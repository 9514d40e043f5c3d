//go:build linux

package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Load is what a client sends: GET requests over keep-alive connections, without retries.
type Load struct {
	Port     int
	Path     string
	Conns    int
	Rate     float64 // requests per second on a fixed schedule; 0: each connection sends as soon as it is answered
	Duration time.Duration
	// Warm, when set, is called once each connection has had an answer. What came before is not counted, and the load begins
	// when it returns.
	Warm func() error
}

// Result counts each request of a Load once: OK, or one of the failures.
type Result struct {
	Sent       int
	OK         int // status 200, and the whole body
	Status     int // whole responses with another status
	Broken     int // the connection ended, or what came was no response of the kind the backend sends
	Unanswered int // not answered, or due and not even sent, when patience with the last ones ended
	Refused    int // attempts at a connection that failed; they are repeated
	Closed     int // connections that the server closed
	Seconds    float64
	// Latency from the moment a request was due, in microseconds, of those that are OK. With a Rate a request is due by the
	// schedule, even when no connection is free to send it: waiting counts.
	P50, P90, P99, P999, Max int
}

// Failed is the number of requests that did not get what they should.
func (r Result) Failed() int { return r.Status + r.Broken + r.Unanswered + r.Refused }

// endPatience is how long the last requests may take once no more are sent.
const endPatience = 10 * time.Second

// stopCheck is how often a client that waits looks whether it shall stop.
const stopCheck = 20 * time.Millisecond

// reconnectPause lies between two attempts at connections that were lost.
const reconnectPause = 5 * time.Millisecond

// Fields are what a browser usually sends.
var Fields = []string{
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
	"Accept: application/json, text/plain, */*",
	"Accept-Encoding: gzip, deflate, br",
	"Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJiZW5jaCIsImlhdCI6MTc2NDUwMDAwMH0.c2lnbmF0dXJlLW9mLXRoZS1iZW5jaA",
	"Cookie: session=6f1ed002ab5595859014ebf0951522d9; theme=dark",
}

// Host is the authority that requests name.
const Host = "bench.test"

type client struct {
	load    Load
	poller  *poller
	conns   table[clientConn]
	idle    []*clientConn // first in, first out, so that all connections are used
	request []byte
	scratch [relayBuffer]byte
	due     []*clientConn // scratch of sendDue
	sending bool          // it is not yet time to stop
	flying  int           // requests that were sent and have no end yet
	missing int           // connections to be made again
	tried   time.Time     // when that was last attempted
	result  Result
	took    []uint32 // microseconds
}

type clientConn struct {
	fd   int
	busy bool
	due  time.Time
	head []byte // of the response, until it is whole
	rest int    // bytes of the body to come; -1: the head is not whole
	good bool   // the status is 200
}

// Run sends until the duration is over or stop is true, and returns once the last request has ended.
func (l Load) Run(stop *atomic.Bool) (Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	poller, err := newPoller()
	if err != nil {
		return Result{}, err
	}
	defer poller.close()
	c := &client{load: l, poller: poller, request: []byte("GET " + l.Path + " HTTP/1.1\r\nHost: " + Host + "\r\n")}
	for _, field := range Fields {
		c.request = append(c.request, field+"\r\n"...)
	}
	c.request = append(c.request, "\r\n"...)
	c.took = make([]uint32, 0, 1<<20)
	defer c.closeAll()
	for range l.Conns {
		if err := c.connect(); err != nil { // a proxy that is not there at all is no result
			return Result{}, fmt.Errorf("port %d: %w", l.Port, err)
		}
	}
	if l.Warm != nil {
		if err := c.warmUp(stop); err != nil {
			return Result{}, err
		}
	}
	if err := c.run(stop); err != nil {
		return Result{}, err
	}
	c.summarise()
	return c.result, nil
}

func (c *client) connect() error {
	fd, err := dial(c.load.Port)
	if err != nil {
		return err
	}
	if err := c.poller.add(fd); err != nil {
		syscall.Close(fd)
		return err
	}
	conn := &clientConn{fd: fd, head: make([]byte, 0, 4<<10)}
	c.conns.put(fd, conn)
	c.idle = append(c.idle, conn)
	return nil
}

// warmUp sends one request on each connection, all of which must be answered well.
func (c *client) warmUp(stop *atomic.Bool) error {
	start := time.Now()
	c.sendAll(start)
	for c.flying > 0 && !stop.Load() && time.Since(start) < endPatience {
		if err := c.receiveReady(stopCheck); err != nil {
			return err
		}
	}
	if c.result.OK < c.load.Conns && !stop.Load() {
		return fmt.Errorf("%d of %d connections had an answer to their first request: %+v", c.result.OK, c.load.Conns, c.result)
	}
	c.result, c.took = Result{}, c.took[:0]
	return c.load.Warm()
}

// receiveReady receives what comes, for which it waits.
func (c *client) receiveReady(wait time.Duration) error {
	ready, err := c.poller.wait(wait)
	if err != nil {
		return err
	}
	for _, event := range ready {
		if conn := c.conns.at(int(event.Fd)); conn != nil {
			c.receive(conn)
		}
	}
	return nil
}

func (c *client) run(stop *atomic.Bool) error {
	start := time.Now()
	end := start.Add(c.load.Duration)
	next := start
	for {
		now := time.Now()
		// What was due in time is sent late rather than never: else a proxy that stalls would be spared the worst of it.
		behind := c.load.Rate > 0 && next.Before(end) && now.Before(end.Add(endPatience))
		c.sending = (now.Before(end) || behind) && !stop.Load()
		if !c.sending && (c.flying == 0 || now.After(end.Add(endPatience))) {
			break
		}
		c.replace(now)
		wait := stopCheck
		if c.missing > 0 {
			wait = reconnectPause
		}
		if c.sending {
			next = c.sendDue(now, next, end)
			if now.Before(end) {
				wait = min(wait, end.Sub(now))
			}
			if c.load.Rate > 0 && len(c.idle) > 0 {
				wait = min(wait, max(next.Sub(now), 0))
			}
		}
		if err := c.receiveReady(wait); err != nil {
			return err
		}
	}
	c.result.Unanswered = c.flying
	if c.load.Rate > 0 && !stop.Load() {
		unsent := int(max(end.Sub(next), 0) / c.gap())
		c.result.Sent += unsent
		c.result.Unanswered += unsent
	}
	c.result.Seconds = time.Since(start).Seconds()
	return nil
}

// sendDue sends what is due on idle connections, on a schedule only what is due before the end, and returns when the next
// request is.
func (c *client) sendDue(now, next, end time.Time) time.Time {
	if c.load.Rate == 0 {
		c.sendAll(now)
		return now
	}
	for !next.After(now) && next.Before(end) && len(c.idle) > 0 {
		conn := c.idle[0]
		c.idle = c.idle[:copy(c.idle, c.idle[1:])]
		c.send(conn, next)
		next = next.Add(c.gap())
	}
	return next
}

// sendAll sends on all idle connections.
func (c *client) sendAll(now time.Time) {
	c.due, c.idle = c.idle, c.due[:0]
	for _, conn := range c.due {
		c.send(conn, now)
	}
}

// gap lies between two requests of the schedule.
func (c *client) gap() time.Duration { return time.Duration(float64(time.Second) / c.load.Rate) }

// send never waits: a request fits an empty socket, or the connection is as good as broken.
func (c *client) send(conn *clientConn, due time.Time) {
	conn.busy, conn.due, conn.head, conn.rest = true, due, conn.head[:0], -1
	c.result.Sent++
	c.flying++
	if n, err := send(conn.fd, c.request); err != nil || n < len(c.request) {
		c.drop(conn)
	}
}

func (c *client) receive(conn *clientConn) {
	n, err := receive(conn.fd, c.scratch[:])
	if err != nil {
		c.drop(conn)
		return
	}
	got := c.scratch[:n]
	if n == 0 {
		return
	}
	if !conn.busy { // nobody asked
		c.drop(conn)
		return
	}
	if conn.rest < 0 {
		conn.head = append(conn.head, got...)
		size, ok := conn.parseHead()
		if !ok {
			c.drop(conn)
			return
		}
		if conn.rest < 0 {
			return
		}
		got = got[:len(conn.head)-size]
	}
	if conn.rest -= len(got); conn.rest < 0 {
		c.drop(conn)
	} else if conn.rest == 0 {
		c.finish(conn)
	}
}

// maxResponse bounds the head of a response, with what came of the body in the same read.
const maxResponse = relayBuffer + 16<<10

// parseHead finds the length of the body once the head is whole, and returns the head's size. False: no such response.
func (conn *clientConn) parseHead() (int, bool) {
	end := bytes.Index(conn.head, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, len(conn.head) < maxResponse
	}
	head := conn.head[:end+len("\r\n")]
	if len(head) < len("HTTP/1.1 200") || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return 0, false
	}
	conn.good = bytes.HasPrefix(head, []byte("HTTP/1.1 200"))
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(name, []byte("Content-Length")) {
			length, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil || length < 0 {
				return 0, false
			}
			conn.rest = length
			return end + len("\r\n\r\n"), true
		}
	}
	return 0, false
}

func (c *client) finish(conn *clientConn) {
	now := time.Now()
	c.flying--
	conn.busy = false
	if conn.good {
		c.result.OK++
		c.took = append(c.took, uint32(now.Sub(conn.due).Microseconds()))
	} else {
		c.result.Status++
	}
	if c.load.Rate == 0 && c.sending {
		c.send(conn, now)
	} else {
		c.idle = append(c.idle, conn)
	}
}

// drop ends a connection, in whose place there will be another.
func (c *client) drop(conn *clientConn) {
	if conn.busy {
		c.flying--
		c.result.Broken++
	} else {
		c.idle = slices.DeleteFunc(c.idle, func(other *clientConn) bool { return other == conn })
	}
	c.result.Closed++
	c.conns[conn.fd] = nil
	syscall.Close(conn.fd)
	c.missing++
}

// replace makes the connections that were dropped anew.
func (c *client) replace(now time.Time) {
	if c.missing == 0 || now.Sub(c.tried) < reconnectPause {
		return
	}
	c.tried = now
	for c.missing > 0 {
		if c.connect() != nil {
			c.result.Refused++
			return
		}
		c.missing--
	}
}

func (c *client) closeAll() {
	for _, conn := range c.conns {
		if conn != nil {
			syscall.Close(conn.fd)
		}
	}
}

func (c *client) summarise() {
	slices.Sort(c.took)
	at := func(share float64) int {
		if len(c.took) == 0 {
			return 0
		}
		return int(c.took[min(int(share*float64(len(c.took))), len(c.took)-1)])
	}
	r := &c.result
	r.P50, r.P90, r.P99, r.P999, r.Max = at(0.5), at(0.9), at(0.99), at(0.999), at(1)
}
