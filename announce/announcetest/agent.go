// Package announcetest is an agent for the tests of services that announce
// themselves. It speaks as an agent does and serves nothing.
//
//	agent := announcetest.Start(t)
//	a, err := announce.Start(ctx, announce.Config{Agent: agent.Addr(), ...})
//	...
//	if err := a.Close(); err != nil { ... }
//	agent.Drains("warehouse") // 1
package announcetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// Gateways is how many gateways an Agent says that there are.
const Gateways = 3

// Instance is what an Agent has of an instance.
type Instance struct {
	Announcement
	Lease    string // which names the connection
	Token    string // the bearer token that was shown with it
	Draining bool
	Beats    int       // heartbeats since it was announced
	Last     Heartbeat // the latest
}

// Agent takes announcements. All of its methods may be called by any number of
// goroutines.
type Agent struct {
	mux  *http.ServeMux
	addr string

	// mu guards what follows.
	mu         sync.Mutex
	changed    chan struct{} // closed and made anew when anything below changes
	leases     map[string]*lease
	made       int // leases and ids
	drains     map[string]int
	refusal    *Problem
	stragglers []Straggler
	mute       bool
}

// New makes an Agent that is served by whoever calls it, as an http.Handler.
func New() *Agent {
	a := &Agent{
		mux: http.NewServeMux(), changed: make(chan struct{}),
		leases: map[string]*lease{}, drains: map[string]int{},
	}
	a.mux.HandleFunc("POST /v1/announce", a.announce)
	a.mux.HandleFunc("PATCH /v1/announce/{lease}", a.patch)
	a.mux.HandleFunc("POST /v1/announce/{lease}/drain", a.drain)
	a.mux.HandleFunc("DELETE /v1/announce/{lease}", a.withdraw)
	return a
}

// Start serves a new Agent on a socket of its own until the test ends.
func Start(t testing.TB) *Agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // the path of a socket is at most 107 bytes, which t.TempDir's may exceed
	if err != nil {
		t.Fatal(err)
	}
	a := New()
	a.addr = "unix://" + filepath.Join(dir, "agent.sock")
	stop := a.Listen(t, filepath.Join(dir, "agent.sock"))
	t.Cleanup(func() {
		stop()
		os.RemoveAll(dir)
	})
	return a
}

// Listen listens on a socket until the function that it returns is called, which
// ends all connections, as a crash does.
func (a *Agent) Listen(t testing.TB, socket string) (crash func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: a}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(l)
	}()
	return func() {
		server.Close()
		<-served
	}
}

// Addr is the agent's address for announce.Config, as unix:///tmp/agent1/agent.sock.
func (a *Agent) Addr() string { return a.addr }

// ServeHTTP is the API of an agent, as far as it is about announcing.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Instances are those that are announced, by their key.
func (a *Agent) Instances() []Instance {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []Instance
	for _, l := range a.leases {
		all = append(all, l.instance)
	}
	slices.SortFunc(all, func(x, y Instance) int { return cmp.Compare(x.Key(), y.Key()) })
	return all
}

// Wait waits until what is announced is as wanted.
func (a *Agent) Wait(ctx context.Context, wanted func([]Instance) bool) error {
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		all := a.Instances()
		if wanted(all) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w; announced are %+v", context.Cause(ctx), all)
		}
	}
}

// Drains is how many instances of a route were drained.
func (a *Agent) Drains(routeID string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.drains[routeID]
}

// Refuse answers each announcement from now on with p; nil: takes them again.
func (a *Agent) Refuse(p *Problem) {
	a.change(func() { a.refusal = p })
}

// Straggle makes gateways that never confirm a drain.
func (a *Agent) Straggle(s ...Straggler) {
	a.change(func() { a.stragglers = s })
}

// Mute ends the lines that show that the agent lives.
func (a *Agent) Mute(mute bool) {
	a.change(func() { a.mute = mute })
}

// Send writes one event to each instance of a route. Those after which an agent
// says no more, superseded, withdrawn and restarting, end the connection.
func (a *Agent) Send(routeID, event, reason string) {
	for _, l := range a.of(routeID) {
		l.send(line{"event": event, "reason": reason})
	}
}

// Raw writes bytes to each instance of a route.
func (a *Agent) Raw(routeID, text string) {
	for _, l := range a.of(routeID) {
		l.out <- []byte(text)
	}
}

// Cut ends the connections of a route's instances, as a crash of the agent does.
func (a *Agent) Cut(routeID string) {
	for _, l := range a.of(routeID) {
		l.cut()
	}
}

func (a *Agent) of(routeID string) []*lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*lease
	for _, l := range a.leases {
		if l.instance.RouteID == routeID {
			all = append(all, l)
		}
	}
	return all
}

func (a *Agent) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	close(a.changed)
	a.changed = make(chan struct{})
}

// line is an event.
type line map[string]any

func (e line) encode() []byte {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // it is made of strings and numbers
	}
	return append(data, '\n')
}
