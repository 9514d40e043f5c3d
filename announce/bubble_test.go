package announce

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/announce/announcetest"
	"grapevine/announce/reach"
)

// wire is an agent in memory, for fake time.
type wire struct {
	*announcetest.Agent
	conns chan net.Conn
	done  chan struct{}
	down  atomic.Bool  // nobody listens
	dials atomic.Int32 // of which some are calls beside the announcement
}

func newWire(t *testing.T, agent http.Handler) *wire {
	w := &wire{conns: make(chan net.Conn), done: make(chan struct{})}
	if agent == nil {
		w.Agent = announcetest.New()
		agent = w.Agent
	}
	server := &http.Server{Handler: agent}
	go server.Serve(w)
	t.Cleanup(func() { server.Close() })
	return w
}

func (w *wire) Addr() net.Addr { return &net.UnixAddr{} }

func (w *wire) Close() error {
	close(w.done)
	return nil
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

func (w *wire) dial(context.Context, reach.Place) (net.Conn, error) {
	w.dials.Add(1)
	if w.down.Load() {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	select {
	case w.conns <- theirs:
		return ours, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// hang is an agent that takes an announcement and says nothing.
func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // a server notices that a client leaves once it has read all
	<-r.Context().Done()
}

// announced is an Announcer in a bubble, whose time is fake. That no goroutine of
// it is left the bubble itself sees: it waits for all.
func announced(t *testing.T, w *wire, change func(*Config)) (*Announcer, *journal) {
	t.Helper()
	j := &journal{}
	c := Config{
		Agent: "unix:///agent.sock", Route: "warehouse", Path: "/warehouse/{**catch-all}", Address: "http://10.0.0.5:8080",
		Logger: slog.New(slog.NewTextHandler(j, nil)),
	}
	if change != nil {
		change(&c)
	}
	a, err := start(t.Context(), c, w.dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	synctest.Wait()
	return a, j
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (a *Announcer) expect(t *testing.T, what string, state State) {
	t.Helper()
	if got := a.Status(); got.State != state {
		t.Errorf("%s: %+v; want %s", what, got, state)
	}
}

// An agent that hangs is left after 30 s without a line, and one that shows that
// it lives is not.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		a, j := announced(t, w, nil)
		pass(time.Hour)
		a.expect(t, "an hour", Announced)
		if n := w.dials.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
		w.Mute(true)
		pass(29 * time.Second)
		a.expect(t, "29 s of silence", Announced)
		if j.count("\n") != 1 {
			t.Error(j)
		}
		pass(time.Second)
		if a.expect(t, "30 s of silence", Connecting); j.count("nothing was heard from the agent for 30s") != 1 {
			t.Error(j)
		}
		w.Mute(false)
		pass(reach.LongestPause)
		a.expect(t, "the agent is back", Announced)
		if all := w.Instances(); len(all) != 1 || all[0].InstanceID != "made-1" {
			t.Errorf("%+v", all)
		}
	})
}

// Pauses grow up to a bound, and are never the same.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.down.Store(true)
		a, j := announced(t, w, nil)
		a.expect(t, "no agent", Connecting)
		pass(time.Second)
		if n := w.dials.Load(); n < 4 || n > 6 {
			t.Errorf("%d attempts in the first second", n)
		}
		pass(time.Minute)
		before := w.dials.Load()
		pass(time.Minute)
		if n := w.dials.Load() - before; n < 20 || n > 40 {
			t.Errorf("%d attempts in a later minute", n)
		}
		if j.count("\n") != 1 {
			t.Errorf("want one line:\n%s", j)
		}
		w.down.Store(false)
		pass(reach.LongestPause)
		a.expect(t, "the agent is there", Announced)
		select {
		case <-a.Ready():
		default:
			t.Error("not ready")
		}
	})
}

// Ten lost connections in a second are one line in the log, and one recovery at a
// time.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		a, j := announced(t, w, nil)
		pass(time.Minute)
		for range 10 {
			w.Cut("warehouse")
			pass(100 * time.Millisecond)
			if n := len(w.Instances()); n > 1 {
				t.Fatalf("%d connections at once", n)
			}
		}
		pass(reach.Quiet)
		a.expect(t, "after all", Announced)
		if lost := j.count("can't be reached"); lost != 1 || j.count("\n") != 3 {
			t.Errorf("want announced, lost, announced:\n%s", j)
		}
		w.Cut("warehouse")
		synctest.Wait()
		if j.count("can't be reached") != 2 {
			t.Errorf("what is lost later is not told:\n%s", j)
		}
		pass(reach.FirstPause)
		a.expect(t, "at the first attempt after a long time", Announced)
	})
}

func TestRestarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		a, j := announced(t, w, nil)
		w.down.Store(true)
		w.Send("warehouse", "restarting", "SIGTERM")
		pass(5 * time.Second)
		a.expect(t, "between", Connecting)
		w.down.Store(false)
		pass(reach.LongestPause)
		a.expect(t, "restarted", Announced)
		if j.count("level=WARN") != 0 || j.count("waiting for the agent") != 1 || w.Instances()[0].InstanceID != "made-1" {
			t.Errorf("%+v\n%s", w.Instances(), j)
		}
	})
}

// A refusal that passes is tried again; one that does not ends the announcement.
func TestRefusedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		a, j := announced(t, w, nil)
		for _, status := range []int{429, 503} {
			w.Refuse(&announcetest.Problem{Status: status, Code: "busy", Detail: "too many"})
			w.Cut("warehouse")
			pass(time.Minute)
			a.expect(t, "refused for now", Connecting)
			w.Refuse(nil)
			pass(reach.LongestPause)
			a.expect(t, "taken again", Announced)
		}
		w.Refuse(&announcetest.Problem{Status: 403, Code: "denied", Detail: "the policy has no grant for route warehouse"})
		w.Cut("warehouse")
		pass(reach.LongestPause)
		a.expect(t, "refused for good", Ended)
		var refused *RefusedError
		if !errors.As(a.Err(), &refused) || refused.Code != "denied" || j.count("no grant for route warehouse") == 0 {
			t.Errorf("%v\n%s", a.Err(), j)
		}
		before := w.dials.Load()
		pass(time.Hour)
		if n := w.dials.Load() - before; n != 0 {
			t.Errorf("%d attempts after the end", n)
		}
	})
}

// An agent that is not ready at the start is waited for.
func TestNotReadyAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.Refuse(&announcetest.Problem{Status: 503, Code: "not_ready", Detail: "the node is starting"})
		a, _ := announced(t, w, nil)
		a.expect(t, "at the start", Connecting)
		w.Refuse(nil)
		pass(reach.LongestPause)
		a.expect(t, "later", Announced)
	})
}

// An agent that accepts connections and says nothing holds Start up for 5 s, and
// Close until the attempt is over: it might have accepted the instance.
func TestAgentHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, http.HandlerFunc(hang))
		began := time.Now()
		a, j := announced(t, w, nil)
		if took := time.Since(began); took != attempt || j.count("no answer within 5s") != 1 {
			t.Errorf("after %v:\n%s", took, j)
		}
		pass(2 * time.Second)
		began = time.Now()
		if err := a.Close(); err != nil || time.Since(began) >= attempt-time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if n := w.dials.Load(); n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

// The end of ctx ends Start.
func TestStartEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, http.HandlerFunc(hang))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := Config{Agent: "unix:///a", Route: "r", Path: "/r", Address: "http://h:80"}
		if _, err := start(ctx, c, w.dial); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		a, j := announced(t, w, func(c *Config) {
			c.Heartbeat = time.Second
			c.Load = func() Load { return Load{InFlight: 3, ErrorRate: 0.25} }
		})
		pass(10 * time.Second)
		got := w.Instances()[0]
		if got.Heartbeat != "1s" || got.Beats != 11 || got.Last.Status != "healthy" || *got.Last.InFlight != 3 || *got.Last.ErrorRate != 0.25 || got.Last.Weight != nil {
			t.Errorf("%+v", got)
		}
		a.SetStatus(Unhealthy)
		a.SetWeight(7)
		synctest.Wait()
		if got := w.Instances()[0]; got.Last.Status != "unhealthy" || *got.Last.Weight != 7 {
			t.Errorf("%+v", got)
		}
		w.Cut("warehouse")
		pass(reach.FirstPause)
		if got := w.Instances()[0]; got.Status != "unhealthy" || *got.Weight != 7 || got.Beats != 1 || got.Last.Status != "unhealthy" {
			t.Errorf("announced again was %+v", got)
		}
		if j.count("heartbeat") != 0 {
			t.Error(j)
		}
	})
}

// Without Heartbeat there are none until SetStatus.
func TestHeartbeatsBeginWithSetStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		a, _ := announced(t, w, nil)
		pass(time.Minute)
		a.SetWeight(2)
		pass(time.Minute)
		if got := w.Instances()[0]; got.Beats != 1 || got.Last.Status != "" || *got.Last.Weight != 2 {
			t.Errorf("%+v", got)
		}
		a.SetStatus(Healthy)
		pass(time.Minute + time.Second)
		if got := w.Instances()[0]; got.Beats < 7 || got.Beats > 8 || got.Last.Status != "healthy" {
			t.Errorf("%+v", got)
		}
		if a.SetStatus("draining") == nil || a.SetWeight(-1) == nil {
			t.Error("taken")
		}
	})
}

// The connection breaks in the middle of the handshake: it goes on with the agent
// that comes back, and the instance gets no requests in between.
func TestDrainOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.Straggle(announcetest.Straggler{Node: "edge-1", Why: "1 request under way"})
		a, _ := announced(t, w, nil)
		closed := make(chan error)
		go func() { closed <- a.Close() }()
		pass(time.Second)
		a.expect(t, "while it drains", Draining)
		w.down.Store(true)
		w.Cut("warehouse")
		pass(time.Second)
		w.down.Store(false)
		pass(hurriedPause)
		if all := w.Instances(); len(all) != 1 || all[0].Announcement.Status != "draining" {
			t.Errorf("announced again: %+v", all)
		}
		w.Straggle()
		w.Cut("warehouse")
		began := time.Now()
		if err := <-closed; err != nil || time.Since(began) > 2*hurriedPause {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		a.expect(t, "closed", Ended)
	})
}

// Close waits for an agent that had the instance, and no longer than Drain.
func TestCloseWithoutAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		a, _ := announced(t, w, nil)
		w.down.Store(true)
		w.Cut("warehouse")
		pass(time.Second)
		began := time.Now()
		err := a.Close()
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "http://10.0.0.5:8080") || took != DefaultDrain {
			t.Errorf("%v after %v", err, took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.down.Store(true)
		a, _ := announced(t, w, nil)
		began := time.Now()
		if err := a.Close(); err != nil || time.Since(began) != 0 {
			t.Errorf("never announced: %v after %v", err, time.Since(began))
		}
	})
}

// What an operator does is seen, and ends nothing.
func TestOperatorDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		var seen []State
		a, j := announced(t, w, func(c *Config) { c.OnChange = func(s Status) { seen = append(seen, s.State) } })
		w.Raw("warehouse", `{"event":"draining","by":"operator","reason":"disk replaced"}`+"\n")
		synctest.Wait()
		a.expect(t, "drained by an operator", Draining)
		if j.count("disk replaced") != 1 {
			t.Error(j)
		}
		w.Raw("warehouse", `{"event":"status","status":"healthy","reason":"back"}`+"\n"+`{"event":"shrug"}`+"\n")
		synctest.Wait()
		a.expect(t, "put back", Announced)
		if got := a.Status(); got.Health != Healthy || len(seen) < 4 || seen[len(seen)-1] != Announced {
			t.Errorf("%+v, %v", got, seen)
		}
	})
}

// An agent that sends what is none of an agent is left, and tried again.
func TestGarbage(t *testing.T) {
	for _, text := range []string{"garbage\n", "{}\n", `{"event":"applied","nodes":-1}` + "\n", strings.Repeat("x", maxEvent+1)} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(t, nil)
			a, j := announced(t, w, nil)
			pass(time.Minute)
			w.Raw("warehouse", text)
			pass(reach.LongestPause)
			a.expect(t, "after garbage", Announced)
			if j.count("can't be reached") != 1 || w.dials.Load() != 2 {
				t.Errorf("%d connections\n%.1000s", w.dials.Load(), j)
			}
		})
	}
}

// An instance is ready when every gateway serves it, and there is one.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := make(chan string)
		w := newWire(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(rw, `{"event":"accepted","lease":"1","instanceId":"a"}`+"\n")
			for {
				http.NewResponseController(rw).Flush()
				select {
				case line := <-lines:
					io.WriteString(rw, line+"\n")
				case <-r.Context().Done():
					return
				}
			}
		}))
		a, _ := announced(t, w, func(c *Config) { c.Drain = -1 })
		for _, step := range []struct {
			line  string
			ready bool
		}{
			{`{"event":"applied","nodes":0,"of":0}`, false},
			{`{"event":"applied","nodes":2,"of":3}`, false},
			{`{"event":"applied","nodes":3,"of":3}`, true},
			{`{"event":"applied","nodes":3,"of":4}`, true},
			{`{"event":"applied","nodes":4,"of":4}`, true},
		} {
			lines <- step.line
			synctest.Wait()
			ready := false
			select {
			case <-a.Ready():
				ready = true
			default:
			}
			if ready != step.ready {
				t.Errorf("after %s: ready is %v", step.line, ready)
			}
		}
	})
}
