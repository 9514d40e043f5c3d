package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"grapevine/agent/api"
	"grapevine/kv"
)

// event is one event of a stream; a comment has only that.
type event struct {
	id, name, data, comment string
}

// stream is an open watch.
type stream struct {
	t     *testing.T
	body  io.ReadCloser
	lines *bufio.Scanner
}

func (c *client) watch(query string, headers ...string) *stream {
	c.t.Helper()
	response := c.open("GET", "/v1/watch?"+query, "", headers...)
	c.t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("watch answered %d as %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	s := &stream{c.t, response.Body, bufio.NewScanner(response.Body)}
	s.lines.Buffer(nil, 4<<20)
	if e := s.any(); e.comment != "connected" {
		c.t.Fatalf("the stream began with %+v", e)
	}
	return s
}

// any is the next event or comment.
func (s *stream) any() event {
	s.t.Helper()
	timer := time.AfterFunc(patience, func() { s.body.Close() })
	defer timer.Stop()
	var e event
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if s.lines.Text() == "" {
				return e
			}
			e.comment = value
		}
	}
	s.t.Fatalf("the stream ended: %v", s.lines.Err())
	return e
}

// next is the next event.
func (s *stream) next() event {
	s.t.Helper()
	for {
		if e := s.any(); e.comment == "" {
			return e
		}
	}
}

func (s *stream) want(name, id, part string) event {
	s.t.Helper()
	e := s.next()
	if e.name != name || e.id != id || !strings.Contains(e.data, part) {
		s.t.Fatalf("event %+v, want %s with id %q and %s", e, name, id, part)
	}
	return e
}

// ended fails the test unless the stream is over.
func (s *stream) ended() {
	s.t.Helper()
	if s.lines.Scan() {
		s.t.Fatalf("the stream went on: %s", s.lines.Text())
	}
}

func TestWatchFollowsItsPrefix(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/before", "1")
	s := n.tcp.watch("prefix=app")
	s.want("sync", "1.1", `{"rev":"1.1"}`)
	n.socket.do("PUT", "/v1/kv/app/x", `{"a": "<b>"}`)
	n.socket.do("PUT", "/v1/kv/app-dev", "1")
	n.socket.do("DELETE", "/v1/kv/app/x", "")
	put := s.want("put", "1.2", `"key":"app/x"`)
	var change api.Change
	if err := json.Unmarshal([]byte(put.data), &change); err != nil {
		t.Fatal(err)
	}
	if string(change.Value) != `{"a":"<b>"}` || change.ModRev != "1.2" || change.By == "" || change.At.IsZero() {
		t.Errorf("put carries %+v", change)
	}
	s.want("delete", "1.4", `{"key":"app/x","modRev":"1.4"`)
}

// A client that resumes must not miss the rest of a revision that it had half of.
func TestOnlyTheLastEventOfARevisionHasTheId(t *testing.T) {
	n := startNode(t)
	s := n.tcp.watch("prefix=app&since=0")
	s.want("sync", "1.0", "1.0")
	n.socket.do("POST", "/v1/txn", `{"then":[{"put":{"key":"app/a","value":1}},{"put":{"key":"app/b","value":2}}]}`)
	s.want("put", "", "app/a")
	s.want("put", "1.1", "app/b")
}

func TestWatchResumes(t *testing.T) {
	n := startNode(t)
	for _, value := range []string{"1", "2", "3"} {
		n.socket.do("PUT", "/v1/kv/app/x", value)
	}
	n.socket.do("PUT", "/v1/kv/other", "1")
	for name, s := range map[string]*stream{
		"since":         n.tcp.watch("prefix=app&since=1.1"),
		"bare since":    n.tcp.watch("prefix=app&since=1"),
		"Last-Event-ID": n.tcp.watch("prefix=app&since=1.3", "Last-Event-ID: 1.1"),
	} {
		t.Log(name)
		s.want("put", "1.2", `"value":2`)
		s.want("put", "1.3", `"value":3`)
		s.want("sync", "1.3", "1.3")
	}
	n.tcp.watch("prefix=app&since=1.3").want("sync", "1.3", "")
}

func TestWatchThatIsTooOldIsReset(t *testing.T) {
	n := startNode(t, func(s *setup) { s.kv.HistoryRevs = 2 })
	for range 5 {
		n.socket.do("PUT", "/v1/kv/app/x", "1")
	}
	for _, since := range []string{"1", "2.1", "1.99", "0.0"} {
		s := n.tcp.watch("prefix=app&since=" + since)
		s.want("reset", "", `{"oldest":"1.3"}`)
		s.ended()
	}
}

func TestSilentWatchShowsThatItLives(t *testing.T) {
	n := startNode(t, func(s *setup) { s.Heartbeat = time.Millisecond })
	s := n.tcp.watch("prefix=app")
	s.want("sync", "1.0", "")
	if e := s.any(); e.comment != "alive" {
		t.Errorf("event %+v", e)
	}
	// A change elsewhere gives a newer place to resume from.
	n.socket.do("PUT", "/v1/kv/other", "1")
	s.want("sync", "1.1", "")
}

func TestWatchEndsWithAReason(t *testing.T) {
	n := startNode(t)
	s := n.tcp.watch("")
	s.want("sync", "1.0", "")
	n.api.Close()
	s.want("end", "", "the agent is stopping")
	s.ended()
	late := n.tcp.watch("")
	late.want("sync", "1.0", "")
	late.want("end", "", "the agent is stopping")
}

func TestBadWatches(t *testing.T) {
	n := startNode(t)
	problem(t, n.tcp.do("GET", "/v1/watch?since=yesterday", ""), 400, "bad_request")
	problem(t, n.tcp.do("GET", "/v1/watch?prefix=a//b", ""), 400, "bad_key")
	problem(t, n.tcp.do("GET", "/v1/watch", "", "Last-Event-ID: x"), 400, "bad_request")
}

// A watch of everything sees every revision once and in order, whoever writes.
func TestWatchSeesEveryRevisionInOrder(t *testing.T) {
	n := startNode(t)
	s := n.tcp.watch("")
	s.want("sync", "1.0", "")
	const writers, writes = 4, 25
	var done sync.WaitGroup
	defer done.Wait()
	for w := range writers {
		done.Go(func() {
			for range writes {
				n.socket.do("PUT", "/v1/kv/app/"+string(rune('a'+w))+"?wait=none", "1")
			}
		})
	}
	for rev := range writers * writes {
		s.want("put", kv.Rev{Epoch: 1, Rev: uint64(rev + 1)}.String(), "")
	}
}

// A stream that begins with the state has all of one moment, of both planes, and then what changed since.
func TestWatchBeginsWithTheState(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/a", "1")
	n.socket.do("PUT", "/v1/kv/app/b", `"`+strings.Repeat("x", 100_000)+`"`)
	n.socket.do("PUT", "/v1/kv/other", "1")
	s := n.tcp.watch("prefix=app&state=1", "Last-Event-ID", "1.1")
	var state api.State
	if err := json.Unmarshal([]byte(s.want("state", "", `"rev":"1.3"`).data), &state); err != nil {
		t.Fatal(err)
	}
	if id := n.store.View().Head().EpochID; state.EpochID != fmt.Sprintf("%x", id) {
		t.Errorf("epoch %q, want %x", state.EpochID, id)
	}
	s.want("put", "", `{"key":"app/a","value":1,"modRev":"1.1"`)
	s.want("put", "", `"key":"app/b"`)
	s.want("sync", "1.3", "1.3")
	n.socket.do("DELETE", "/v1/kv/app/a", "")
	s.want("delete", "1.4", `"key":"app/a"`)
}
