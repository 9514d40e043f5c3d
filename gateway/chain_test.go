package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"grapevine/gateway/hostile"
)

// chain is two nodes, one behind the other, in front of a judge.
type chain struct {
	first, second *node
	judge         *ledger
}

func startChain(t testing.TB, judge *ledger, backend string) *chain {
	t.Helper()
	c := &chain{judge: judge}
	c.second = startNode(t, backend)
	c.first = startNode(t, "http://"+c.second.address)
	return c
}

// send sends a stream in pieces and closes its half. It gives all that came back,
// and the requests that the first node saw on the connection.
func (c *chain) send(t testing.TB, s stream, piece int) (answer []byte, seen []message) {
	t.Helper()
	conn, err := net.Dial("tcp", c.first.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * patience))
	from := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	before := len(c.first.from(from)) // of a connection that had the same port
	answered, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		if write(conn, s.raw[:s.held], piece) {
			<-answered
			write(conn, s.raw[s.held:], piece)
		}
		conn.(*net.TCPConn).CloseWrite()
	}()
	in := bufio.NewReader(conn)
	if s.held > 0 {
		_, _ = in.Peek(1) // what it says is said again
	}
	close(answered)
	answer, err = io.ReadAll(in)
	if os.IsTimeout(err) {
		t.Errorf("%.1000q: the connection stays open behind %.1000q", s.raw, answer)
	}
	<-written
	return answer, c.first.from(from)[before:]
}

// write is false when the server has closed.
func write(conn net.Conn, raw []byte, piece int) bool {
	for len(raw) > 0 {
		n := min(piece, len(raw))
		if _, err := conn.Write(raw[:n]); err != nil {
			return false
		}
		raw = raw[n:]
	}
	return true
}

// check compares the answers on a connection with the requests that the first node
// saw on it: one each, in their order, and at most a refusal behind them.
func (c *chain) check(t testing.TB, raw, answer []byte, seen []message) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(answer))
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\n sent %.1000q\n got %.1000q\n seen %v", fmt.Sprintf(format, args...), raw, answer, seen)
	}
	sent := bufio.NewReader(bytes.NewReader(raw))
	for _, m := range seen {
		if sent != nil {
			difference, further := compareWithStd(sent, m)
			if difference != "" {
				fail("%s is not what net/http sees: %s", m.id, difference)
			}
			if !further {
				sent = nil
			}
		}
		if m.status == 0 {
			return // the client had left
		}
		response, body, err := readFinal(in, m.method)
		if err != nil && m.cut {
			return // as well
		}
		if err != nil {
			fail("answer to %s: %v", m.id, err)
			return
		}
		if got := response.Header.Get("X-Correlation-Id"); got != m.id || response.StatusCode != m.status {
			fail("answer to %s is %d to %s", m.id, response.StatusCode, got)
		}
		if m.forwarded && m.whole && response.StatusCode != 200 {
			fail("%s was answered with %d", m.id, response.StatusCode)
		}
		if m.forwarded && response.StatusCode == 200 && m.method != "HEAD" && !strings.Contains(strings.ToLower(body), "x-correlation-id: "+m.id+"\r\n") {
			fail("answer to %s tells of another request", m.id)
		}
	}
	if response, _, err := readFinal(in, "GET"); err == nil && (response.StatusCode < 400 || !response.Close) {
		fail("an answer to nothing: %s", response.Status)
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		fail("behind the last answer came %q", rest)
	}
}

// compareWithStd reads the next request that a client sent with net/http, and tells
// how it differs from what a node made of it. There is no further one to compare
// where net/http refuses something that is not framing.
func compareWithStd(sent *bufio.Reader, m message) (difference string, further bool) {
	if next, _ := sent.Peek(2); string(next) == "\r\n" {
		_, _ = sent.Discard(2)
	}
	r, err := http.ReadRequest(sent)
	switch {
	case err != nil && (strings.Contains(err.Error(), "invalid URL escape") || strings.Contains(err.Error(), "bad trailer key")):
		return "", false
	case err != nil:
		return err.Error(), false
	}
	body, err := io.ReadAll(r.Body)
	if r.Method != m.method || m.whole && (err != nil || string(body) != m.body) || !strings.HasPrefix(string(body), m.body) {
		return fmt.Sprintf("%s %s %.200q, %v", r.Method, r.RequestURI, body, err), false
	}
	return "", err == nil
}

// readFinal reads a response, without the informational ones before it.
func readFinal(in *bufio.Reader, method string) (*http.Response, string, error) {
	for {
		response, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return nil, "", err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode >= 200 {
			return response, string(body), err
		}
	}
}

// marks are what clients put into their requests.
type marks struct{ given sync.Map }

var looksMarked = regexp.MustCompile(`m[0-9a-f]{8}m`)

func (m *marks) give(r *rand.Rand) string {
	mark := fmt.Sprintf("m%08xm", r.Uint32())
	m.given.Store(mark, true)
	return mark
}

// check wants nothing of another client's in an answer.
func (m *marks) check(t testing.TB, answer []byte, mark string) {
	t.Helper()
	for _, found := range looksMarked.FindAllString(string(answer), -1) {
		if _, given := m.given.Load(found); given && found != mark {
			t.Errorf("an answer to %s has bytes of %s: %.2000q", mark, found, answer)
			return
		}
	}
}

// agree compares what all have seen, when all have ended.
func (c *chain) agree(t *testing.T) {
	t.Helper()
	c.first.stop()
	c.second.stop()
	whole := 0
	for id, ms := range c.first.byID {
		if ms[0].forwarded && ms[0].whole {
			whole++
		}
		if difference := c.difference(id); difference != "" {
			t.Error(difference)
		}
	}
	for id, ms := range c.second.byID {
		if len(c.first.byID[id]) == 0 {
			t.Errorf("only the second node saw %v", ms)
		}
	}
	for id, ms := range c.judge.byID {
		if len(c.second.byID[id]) == 0 {
			t.Errorf("only the backend saw %v", ms)
		}
	}
	t.Logf("of %d requests %d were whole and went through; %d streams ended with a refusal", len(c.first.byID), whole, len(c.first.faults))
	if whole == 0 {
		t.Error("none went through: the test shows nothing")
	}
}

// difference tells how those behind the first node saw another request of this id.
func (c *chain) difference(id string) string {
	first, _ := c.first.called(id)
	second, refused := c.second.called(id)
	last, faults := c.judge.called(id)
	tell := func(what string) string {
		return fmt.Sprintf("%s: the first node saw %v\n the second %v\n the backend %v", what, first, second, last)
	}
	switch m := first[0]; {
	case len(refused)+len(faults) > 0:
		return tell(fmt.Sprintf("what was sent on is no request: refused by the second node %v, by the backend %v", refused, faults))
	case len(first) > 1 || len(second) > 1 || len(last) > 1:
		return tell("seen more than once")
	case !m.forwarded && len(second)+len(last) > 0:
		return tell("not forwarded, and yet seen")
	case !m.forwarded:
		return ""
	case m.status == 0 || len(last) > 0 && last[0].early:
		// The client has left, or has its answer: the nodes have given up where they were.
		if len(last) > 0 && !last[0].beginsLike(m) {
			return tell("not what it was before it was given up")
		}
	case m.whole && (len(last) == 0 || !last[0].same(m)):
		return tell("not the same")
	case !m.whole && (len(second) > 0 && second[0].whole || len(last) > 0 && last[0].whole):
		return tell("a request without an end got one")
	}
	return ""
}

// clients is how many streams are sent at a time, so that they share connections
// between the nodes.
const clients = 8

// Two nodes in a chain, and what is behind them, never disagree on where a request
// ends: what the first one accepts reaches the backend as the same requests, once
// each, and every client gets the answers to its own.
func TestChainAgrees(t *testing.T) {
	streams, pieces := 150, []int{1 << 20, 7}
	if os.Getenv("GRAPEVINE_LONG") != "" {
		streams, pieces = 5000, append(pieces, 1)
	}
	for name, start := range map[string]func(testing.TB) (*ledger, string){"raw backend": startRawJudge, "net/http backend": startStdJudge} {
		t.Run(name, func(t *testing.T) {
			judge, backend := start(t)
			c := startChain(t, judge, backend)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			jobs := make(chan func(), clients)
			var working sync.WaitGroup
			for range clients {
				working.Go(func() {
					for job := range jobs {
						job()
					}
				})
			}
			var given marks
			r := rand.New(rand.NewPCG(seed, 1<<32))
			play := func(s stream, mark string, piece int) {
				jobs <- func() {
					answer, seen := c.send(t, s, piece)
					c.check(t, s.raw, answer, seen)
					given.check(t, answer, mark)
				}
			}
			for _, row := range hostile.Requests() {
				for _, piece := range pieces {
					if len(row.Raw)/piece > 2000 {
						continue
					}
					mark := given.give(r)
					raw := row.Raw + "GET /behind-" + mark + " HTTP/1.1\r\n" + hostile.Host + "\r\n"
					play(stream{raw: []byte(strings.ReplaceAll(raw, "a.example", mark+".example"))}, mark, piece)
				}
			}
			for i := range heldStreams("") {
				mark := given.give(r)
				play(heldStreams(mark)[i], mark, 1<<20)
			}
			play(stream{raw: []byte("GET /old HTTP/1.0\r\n\r\n")}, "", 1<<20)
			for i := range streams {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				mark := given.give(r)
				play(stream{raw: wildStream(r, mark)}, mark, pickPiece(r))
			}
			close(jobs)
			working.Wait()
			c.agree(t)
		})
	}
}

func pickPiece(r *rand.Rand) int {
	if r.IntN(3) > 0 {
		return 1 << 20
	}
	return 1 + r.IntN(100)
}

// Whatever a client sends, the backend sees what the first node accepted.
func FuzzChain(f *testing.F) {
	for _, row := range hostile.Requests() {
		if len(row.Raw) < 500 {
			f.Add([]byte(row.Raw+"GET /behind HTTP/1.1\r\n"+hostile.Host+"\r\n"), uint16(1000))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f.Add(bytes.ReplaceAll(wildStream(r, "mark"), []byte(hasty), nil), uint16(r.IntN(100)))
	}
	judge, backend := startRawJudge(f)
	c := startChain(f, judge, backend)
	f.Fuzz(func(t *testing.T, raw []byte, piece uint16) {
		lower := bytes.ToLower(raw)
		if len(raw) > 4<<10 || bytes.Contains(lower, []byte("correlation")) || bytes.Contains(lower, []byte("hasty")) {
			return // by which messages are found, and after which they are late to be
		}
		answer, seen := c.send(t, stream{raw: raw}, int(piece)+1)
		c.check(t, raw, answer, seen)
		for _, m := range seen {
			if difference := c.difference(m.id); difference != "" {
				t.Fatalf("%q: %s", raw, difference)
			}
		}
	})
}
