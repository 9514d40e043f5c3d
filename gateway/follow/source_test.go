package follow_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"grapevine/gateway"
	"grapevine/gateway/follow"
	"grapevine/kv"
)

var _ gateway.Source = (*follow.Source)(nil)

// A source shows the state when it is whole, and each revision when its last event is there.
func TestShowsWhatTheAgentDoes(t *testing.T) {
	agent := startAgent(t, state("1.4", here,
		put("gateway/routes/a", "1.2", `{"n":1}`), put("gateway/routes/b", "1.4", `"x"`), instance("1", 1, ""),
		put("gateway", "1.1", "1"), // is under the prefix, and nothing that a gateway reads
		"event: put\ndata: {\"key\":\"gateway/nodes/n1\",\"value\":{},\"modRev\":\"0.1\",\"owner\":{\"node\":\"n1\"}}\n\n"))
	s := run(t, follow.Options{Agent: agent.URL})
	s.untilAt("1.4")
	if got := keys(s.View()); got != `instances/shop/1={"path":"/shop/{**r}","address":"http://127.0.0.1:91"} routes/a={"n":1} routes/b="x"` {
		t.Errorf("shows %s", got)
	}
	agent.more <- put("gateway/routes/c", "1.5", "1")
	agent.more <- "event: novelty\nid: 1.9\ndata: ?\n\n: alive\n\n"
	agent.more <- last("1.5", gone("gateway/routes/a"))
	s.untilAt("1.5")
	// Of the state, which came before, the status tells by now.
	if status := s.Status(); !status.Following || status.Heard.IsZero() || status.Err != nil {
		t.Errorf("status %+v", status)
	}
	if got := keys(s.View()); strings.Contains(got, "routes/a") || !strings.Contains(got, "routes/c=1") {
		t.Errorf("after a revision it shows %s", got)
	}
	agent.more <- last("1.5", instance("1", 2, `,"draining":true`))
	s.until("the drain", func(v kv.View) bool {
		e, _ := v.Get("gateway/instances/shop/1")
		return e.Own.Draining && e.Own.Mark == kv.OwnerMark{Incarnation: 1, Seq: 2} && e.Own.Owner == "n1"
	})
	agent.more <- last("1.5", gone("gateway/instances/shop/1"))
	s.until("its end", func(v kv.View) bool { return v.LenOwned() == 0 })
	agent.more <- "id: 1.9\nevent: sync\ndata: {\"rev\":\"1.9\"}\n\n"
	s.untilAt("1.9")
}

// Whatever an agent sends, the last good state is served, all of it, and the next stream is followed.
func TestServesOnWhateverComes(t *testing.T) {
	good := state("1.4", here, put("gateway/routes/a", "1.4", "1"), instance("1", 1, ""))
	next := state("1.6", here, put("gateway/routes/b", "1.6", "1"))
	begun := strings.TrimSuffix(good, "id: 1.4\nevent: sync\ndata: {\"rev\":\"1.4\"}\n\n")
	for name, fault := range map[string]string{
		"nothing":               "",
		"a refusal":             "refuse",
		"half a state":          state("1.5", here)[:60],
		"half a line":           good + "id: 1.5\nevent: put\ndata: {\"key\":\"gateway/rou",
		"half a revision":       good + put("gateway/routes/c", "1.5", "1"),
		"no blank line":         good + strings.TrimSuffix(last("1.5", gone("gateway/routes/a")), "\n"),
		"garbage":               good + "\x00\xff\n\nevent: put\ndata: }{\n\n",
		"another protocol":      "HTTP is not this\n\n",
		"a change before":       put("gateway/routes/c", "1.5", "1") + good,
		"a sync before":         "event: sync\ndata: {\"rev\":\"1.5\"}\n\n",
		"two states":            good + state("1.5", here),
		"a state of no rev":     state("", here),
		"a state of a bare rev": state("5", here),
		"a state of no epoch":   state("1.5", ""),
		"another end":           begun + "event: sync\ndata: {\"rev\":\"1.5\"}\n\n",
		"a delete in a state":   begun + gone("gateway/routes/a") + "event: sync\ndata: {\"rev\":\"1.4\"}\n\n",
		"compacted":             good + "event: reset\ndata: {\"oldest\":\"1.9\"}\n\n",
		"an end":                good + "event: end\ndata: {\"reason\":\"the agent is stopping\"}\n\n",
		"a bad end":             good + "event: end\ndata: [\n\n",
		"a bad key":             good + last("1.5", put("gateway/../x", "1.5", "1")),
		"no value":              good + last("1.5", "event: put\ndata: {\"key\":\"gateway/routes/c\",\"modRev\":\"1.5\"}\n\n"),
		"a strange encoding":    good + last("1.5", "event: put\ndata: {\"key\":\"gateway/routes/c\",\"modRev\":\"1.5\",\"value\":\"\",\"encoding\":\"x\"}\n\n"),
		"no owner":              good + last("1.5", put("gateway/instances/shop/2", "0.9", "{}")),
		"an owner of a route":   good + last("1.5", strings.ReplaceAll(instance("2", 2, ""), "instances/shop", "routes")),
		"a step back":           good + last("1.3", gone("gateway/routes/a")),
		"a bad id":              good + last("x", gone("gateway/routes/a")),
		"an oversized event":    good + "event: put\ndata: {\"key\":\"" + strings.Repeat("x", follow.MaxEvent) + "\"}\n\n",
		"many oversized lines":  good + "event: put\n" + strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", follow.MaxEvent/1000+1) + "\n",
		"an oversized value":    good + last("1.5", put("gateway/routes/c", "1.5", `"`+strings.Repeat("x", kv.MaxValueBytes)+`"`)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := startAgent(t, good, fault, next)
			s := run(t, follow.Options{Agent: agent.URL})
			seen := ""
			s.until("what comes next", func(v kv.View) bool {
				switch got := keys(v); {
				case v.Rev().String() == "1.6":
					return true
				case got == "" && seen == "":
				default:
					if seen = got; !strings.Contains(got, "routes/a=1") || !strings.Contains(got, "instances/shop/1") || v.Rev().String() != "1.4" {
						t.Errorf("at %s it showed %s", v.Rev(), got)
					}
				}
				return false
			})
			if got := keys(s.View()); got != "routes/b=1" {
				t.Errorf("in the end it shows %s", got)
			}
			if n := agent.requests(); n != 3 {
				t.Errorf("it asked %d times, want 3", n)
			}
		})
	}
}

// What was heard is served after a restart, with instances for which nobody vouches, until the agent is heard.
func TestServesFromDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	open := func() *kv.Store {
		store, err := kv.Open(kv.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	agent := startAgent(t, state("1.4", here, put("gateway/routes/a", "1.4", "1"), put("gateway/routes/b", "1.4", "1"), instance("1", 1, "")))
	store := open()
	s := run(t, follow.Options{Agent: agent.URL, Store: store})
	if s.Waiting() == "" && s.View().Rev().IsZero() {
		t.Error("it takes traffic and knows nothing")
	}
	s.untilAt("1.4")
	agent.more <- put("gateway/routes/c", "1.5", "1") + last("1.5", gone("gateway/routes/a"))
	s.untilAt("1.5")
	before := keys(s.View())
	s.stop()
	store.Close()

	store = open()
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	s = run(t, follow.Options{Agent: nobody.URL, Store: store})
	if got := keys(s.View()); got != before || s.View().Rev().String() != "1.5" || s.Waiting() != "" {
		t.Errorf("after a restart it shows %s at %s (%s), want %s", got, s.View().Rev(), s.Waiting(), before)
	}
	if e, _ := s.View().Get("gateway/instances/shop/1"); e.Own == nil || !e.Own.Orphaned {
		t.Errorf("the instance is %+v, want it orphaned", e.Own)
	}
	s.stop()
	s = run(t, follow.Options{Agent: agent.URL, Store: store})
	s.untilAt("1.4")
	if e, _ := s.View().Get("gateway/instances/shop/1"); e.Own.Orphaned {
		t.Error("the instance is an orphan though its agent is there")
	}
	s.stop()
	if err := store.SetLocal("follow/keys/gateway/routes/a", []byte("}")); err != nil {
		t.Fatal(err)
	}
	if _, err := follow.New(follow.Options{Agent: agent.URL, Store: store}); err == nil || !strings.Contains(err.Error(), "follow/keys/gateway/routes/a") {
		t.Errorf("what can't be read gives %v", err)
	}
}

// A gateway goes over to another cluster, of which the revisions are the same and the values are not.
func TestGatewayFollowsToAnotherCluster(t *testing.T) {
	backend := func(says string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, says) }))
		t.Cleanup(server.Close)
		return `{"path":"/{**r}","backends":["` + server.URL + `"]}`
	}
	one, other := backend("one"), backend("other")
	agent := startAgent(t, state("1.4", here, put("gateway/routes/a", "1.4", one))+hold, state("1.4", elsewhere, put("gateway/routes/a", "1.4", other)))
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, err := follow.New(follow.Options{Agent: agent.URL})
	if err != nil {
		t.Fatal(err)
	}
	g := gateway.New(gateway.Options{Source: s, Keeper: store, Waiting: s.Waiting})
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if ready, why := g.Ready(); ready || !strings.Contains(why, "not heard yet") {
		t.Errorf("ready %v, %q, though nothing was heard", ready, why)
	}
	run := runIt(t, s)
	run.untilAt("1.4")
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { g.Run(ctx) })
	await(t, g, "one")
	agent.cut <- struct{}{}
	await(t, g, "other")
}

// await asks a gateway until it answers as wanted.
func await(t *testing.T, g *gateway.Gateway, want string) {
	t.Helper()
	for timeout := time.After(patience); ; {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest("GET", "/x", nil))
		if w.Body.String() == want {
			return
		}
		select {
		case <-timeout:
			t.Fatalf("it answers %q, want %q", w.Body, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// One line says that the agent is lost and one that it is back, however often it is tried.
func TestLogsAnOutageOnce(t *testing.T) {
	var log bytes.Buffer
	good := state("1.4", here, put("gateway/routes/a", "1.4", "1"))
	agent := startAgent(t, good, "refuse", "refuse", "refuse", state("1.5", here))
	s := run(t, follow.Options{Agent: agent.URL, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.untilAt("1.5")
	s.stop()
	if text := log.String(); strings.Count(text, "\n") != 3 || strings.Count(text, "can't be followed") != 1 || strings.Count(text, "following an agent") != 2 {
		t.Errorf("it said\n%s", text)
	}
}

func TestRefusesAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"https://h":  "has no TLS",
		"h:8500":     "not like",
		"unix://":    "not like",
		"http://h/x": "not like",
	} {
		if _, err := follow.New(follow.Options{Agent: address}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	t.Setenv("AGENT_ADDR", "ftp://h")
	if _, err := follow.New(follow.Options{}); err == nil || !strings.Contains(err.Error(), "AGENT_ADDR") {
		t.Errorf("AGENT_ADDR gives %v", err)
	}
}
