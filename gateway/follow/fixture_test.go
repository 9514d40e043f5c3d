package follow_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"grapevine/gateway/follow"
	"grapevine/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits for things that happen at once when all is well.
const patience = 10 * time.Second

// epoch ids, in hex.
const (
	here      = "0102030405060708090a0b0c0d0e0f10"
	elsewhere = "ff02030405060708090a0b0c0d0e0f10"
)

// The events of an agent's stream.
func state(rev, epochID string, puts ...string) string {
	return fmt.Sprintf(": connected\n\nevent: state\ndata: {\"rev\":%q,\"epochId\":%q}\n\n%sid: %s\nevent: sync\ndata: {\"rev\":%q}\n\n",
		rev, epochID, strings.Join(puts, ""), rev, rev)
}

func put(key, rev, value string) string {
	return fmt.Sprintf("event: put\ndata: {\"key\":%q,\"value\":%s,\"modRev\":%q}\n\n", key, value, rev)
}

func instance(id string, seq int, more string) string {
	return fmt.Sprintf("event: put\ndata: {\"key\":\"gateway/instances/shop/%s\",\"value\":{\"path\":\"/shop/{**r}\",\"address\":\"http://127.0.0.1:9%s\"},"+
		"\"modRev\":\"0.%d\",\"owner\":{\"node\":\"n1\",\"incarnation\":1,\"seq\":%d,\"draining\":false,\"orphaned\":false%s}}\n\n", id, id, seq, seq, more)
}

func gone(key string) string { return fmt.Sprintf("event: delete\ndata: {\"key\":%q}\n\n", key) }

// last gives the last event of a revision its id.
func last(rev, event string) string { return "id: " + rev + "\n" + event }

// hold has a connection stay open until it is cut, though it is not the last.
const hold = ": hold\n\n"

// fakeAgent answers each request for the stream with what comes next.
type fakeAgent struct {
	*httptest.Server
	mu      sync.Mutex // guards answers and asked
	answers []string   // of one connection each; the last one stays open
	asked   int
	more    chan string   // for the connection that stays open
	cut     chan struct{} // ends it
}

func startAgent(t *testing.T, answers ...string) *fakeAgent {
	t.Helper()
	a := &fakeAgent{answers: answers, more: make(chan string), cut: make(chan struct{})}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *fakeAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.String() != "/v1/watch?prefix=gateway&state=1" {
		http.Error(w, "no such thing", http.StatusNotFound)
		return
	}
	a.mu.Lock()
	answer := a.answers[min(a.asked, len(a.answers)-1)]
	answer, held := strings.CutSuffix(answer, hold)
	stays := held || a.asked >= len(a.answers)-1
	a.asked++
	a.mu.Unlock()
	if answer == "refuse" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"code":"not_ready","detail":"it has just started"}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for ; ; answer = "" {
		fmt.Fprint(w, answer)
		http.NewResponseController(w).Flush()
		if !stays {
			return
		}
		select {
		case answer = <-a.more:
			fmt.Fprint(w, answer)
		case <-a.cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (a *fakeAgent) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// source is one that runs until the test ends, or stop is called.
type source struct {
	*follow.Source
	t    *testing.T
	stop func()
}

func run(t *testing.T, o follow.Options) *source {
	t.Helper()
	s, err := follow.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return runIt(t, s)
}

func runIt(t *testing.T, s *follow.Source) *source {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return &source{s, t, stop}
}

// until waits for a view.
func (s *source) until(what string, good func(kv.View) bool) {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		changed := s.Changed()
		if good(s.View()) {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			s.t.Fatalf("%s: not within %v; it is at %s: %+v", what, patience, s.View().Rev(), s.Status())
		}
	}
}

func (s *source) untilAt(rev string) {
	s.t.Helper()
	s.until("revision "+rev, func(v kv.View) bool { return v.Rev().String() == rev })
}

func keys(v kv.View) string {
	var all []string
	for e := range v.Under("") {
		all = append(all, strings.TrimPrefix(string(e.Key), "gateway/")+"="+string(e.Value))
	}
	return strings.Join(all, " ")
}
