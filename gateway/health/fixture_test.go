package health_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/health"
)

// site is a destination in memory that answers checks as it is told.
type site struct {
	// mu guards what follows.
	mu    sync.Mutex
	mode  string // status code, hang or refuse
	asked []time.Time
	now   int // checks at this moment
	most  int
	last  *http.Request
}

func newSite(mode string) *site { return &site{mode: mode} }

func (s *site) is(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
}

// answers has the site answer the next n checks in a way, and waits for them.
func (s *site) answers(mode string, n int) {
	s.is(mode)
	for end := len(s.times()) + n; len(s.times()) < end; {
		<-time.After(10 * time.Millisecond)
	}
	synctest.Wait()
}

// dial gives a connection to the site, which counts as asked.
func (s *site) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, time.Now())
	if s.mode == "refuse" {
		return nil, errors.New("connection refused")
	}
	if s.now++; s.now > s.most {
		s.most = s.now
	}
	near, far := net.Pipe()
	go s.serve(far, s.mode)
	return &visit{Conn: near, site: s}, nil
}

// visit is a connection to a site, which is there until it is closed.
type visit struct {
	net.Conn
	site  *site
	leave sync.Once
}

func (v *visit) Close() error {
	v.leave.Do(func() {
		v.site.mu.Lock()
		defer v.site.mu.Unlock()
		v.site.now--
	})
	return v.Conn.Close()
}

func (s *site) serve(conn net.Conn, mode string) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	request, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.last = request
	s.mu.Unlock()
	if mode == "hang" {
		reader.ReadByte() // until the other end leaves
		return
	}
	fmt.Fprintf(conn, "HTTP/1.1 %s Status\r\nContent-Length: 1000000\r\n\r\n", mode)
}

func (s *site) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.asked...)
}

// group is a group of sites, with a monitor of its own.
type group struct {
	*health.Group
	t       *testing.T
	monitor *health.Monitor
	members []*health.Member
	changes atomic.Int32
	log     lines
}

// inFakeTime runs a test in a bubble, which ends only when every goroutine has.
func inFakeTime(t *testing.T, test func(t *testing.T)) { synctest.Test(t, test) }

func watch(t *testing.T, policy health.Policy, sites ...*site) *group {
	g := &group{t: t}
	g.monitor = health.NewMonitor(slog.New(&g.log), nil)
	t.Cleanup(g.monitor.Close)
	g.join(policy, sites...)
	return g
}

func (g *group) join(policy health.Policy, sites ...*site) {
	g.Group = g.monitor.NewGroup("c", func() { g.changes.Add(1) })
	for i, s := range sites {
		g.members = append(g.members, g.Member(fmt.Sprintf("http://site%d", i), s.dial))
	}
	g.Enter(policy, g.members)
}

func (g *group) states() string {
	synctest.Wait()
	text := ""
	for _, m := range g.members {
		text += m.State().String() + " "
	}
	return text[:len(text)-1]
}

func (g *group) want(states string) {
	g.t.Helper()
	if got := g.states(); got != states {
		g.t.Errorf("after %v: %s; want %s", time.Since(begin), got, states)
	}
}

// begin is where fake time begins.
var begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// lines are the messages of a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r.Message)
	return nil
}

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *lines) WithGroup(string) slog.Handler      { return l }

func (l *lines) count(message string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if line == message {
			n++
		}
	}
	return n
}
