package announce_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"grapevine/announce"
	"grapevine/announce/announcetest"
)

// patience passes only when something is wrong.
const patience = 20 * time.Second

func config(agent *announcetest.Agent) announce.Config {
	return announce.Config{
		Agent: agent.Addr(), Route: "warehouse", Path: "/warehouse/{**catch-all}", Address: "http://10.0.0.5:8080",
		Logger: slog.New(slog.DiscardHandler),
	}
}

func start(t *testing.T, c announce.Config) *announce.Announcer {
	t.Helper()
	a, err := announce.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// wait waits until the agent has as wanted of the instances.
func wait(t *testing.T, agent *announcetest.Agent, wanted func([]announcetest.Instance) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := agent.Wait(ctx, wanted); err != nil {
		t.Fatal(err)
	}
}

func count(n int) func([]announcetest.Instance) bool {
	return func(all []announcetest.Instance) bool { return len(all) == n }
}

func TestAnnounceAndClose(t *testing.T) {
	agent := announcetest.Start(t)
	c := config(agent)
	c.PathRemovePrefix, c.Version, c.Region, c.Weight = "/warehouse", "1.2.0", "north", new(0)
	c.Token, c.RequireAuth, c.Labels = "secret", true, map[string]string{"team": "blue"}
	a := start(t, c)
	await(t, "ready", a.Ready())
	status := a.Status()
	if status.State != announce.Announced || status.Instance != "made-1" || status.Applied != 3 || status.Of != 3 ||
		status.Key != "gateway/instances/warehouse/made-1" {
		t.Errorf("%+v", status)
	}
	if token := agent.Instances()[0].Token; token != "secret" {
		t.Errorf("token %q", token)
	}
	got := agent.Instances()[0].Announcement
	if got.PathRemovePrefix != c.PathRemovePrefix || got.Version != "1.2.0" || got.Region != "north" || *got.Weight != 0 ||
		!got.RequireAuth || got.AllowAnonymous || got.Labels["team"] != "blue" || got.Address != c.Address || got.Path != c.Path ||
		got.StartedAt == "" || got.Heartbeat != "" || got.Status != "" {
		t.Errorf("announced was %+v", got)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	await(t, "the end", a.Done())
	if a.Err() != nil || agent.Drains("warehouse") != 1 || a.Status().State != announce.Ended {
		t.Errorf("%v, %d drains, %+v", a.Err(), agent.Drains("warehouse"), a.Status())
	}
	wait(t, agent, count(0))
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestDrainKeepsTheInstanceUntilClose(t *testing.T) {
	agent := announcetest.Start(t)
	a := start(t, config(agent))
	drained, err := a.Drain(t.Context())
	if err != nil || drained.Confirmed != 3 || drained.Of != 3 {
		t.Fatalf("%+v, %v", drained, err)
	}
	if all := agent.Instances(); len(all) != 1 || !all[0].Draining {
		t.Errorf("%+v", all)
	}
	a.Close()
	wait(t, agent, count(0))
	if _, err := a.Drain(t.Context()); err == nil {
		t.Error("a closed announcement was drained")
	}
}

func TestStragglers(t *testing.T) {
	agent := announcetest.Start(t)
	agent.Straggle(announcetest.Straggler{Node: "edge-3", Why: "2 requests under way"})
	c := config(agent)
	c.Drain = 200 * time.Millisecond
	a := start(t, c)
	err := a.Close()
	var drain *announce.DrainError
	if !errors.As(err, &drain) || drain.Confirmed != 2 || !strings.Contains(err.Error(), "edge-3 (2 requests under way)") {
		t.Error(err)
	}
	wait(t, agent, count(0))
}

func TestContextEndDrains(t *testing.T) {
	agent := announcetest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	a, err := announce.Start(ctx, config(agent))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	await(t, "the end", a.Done())
	if a.Err() != nil || agent.Drains("warehouse") != 1 {
		t.Errorf("%v, %d drains", a.Err(), agent.Drains("warehouse"))
	}
	if _, err := announce.Start(ctx, config(agent)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNoDrain(t *testing.T) {
	agent := announcetest.Start(t)
	c := config(agent)
	c.Drain = -1
	a := start(t, c)
	if err := a.Close(); err != nil || agent.Drains("warehouse") != 0 {
		t.Errorf("%v, %d drains", err, agent.Drains("warehouse"))
	}
	wait(t, agent, count(0))
}

// What is wrong with a Config is said at once, all of it.
func TestBadConfig(t *testing.T) {
	good := announce.Config{Agent: "unix:///none", Route: "r", Path: "/r", Address: "http://10.0.0.5:8080"}
	for says, change := range map[string]func(*announce.Config){
		"Route: is missing":             func(c *announce.Config) { c.Route = "" },
		"Path: is missing":              func(c *announce.Config) { c.Path = "" },
		"Address: is missing":           func(c *announce.Config) { c.Address = "" },
		`Address "10.0.0.5:80": is not`: func(c *announce.Config) { c.Address = "10.0.0.5:80" },
		`"http://0.0.0.0:80": nobody`:   func(c *announce.Config) { c.Address = "http://0.0.0.0:80" },
		`"http://[::]:80": nobody`:      func(c *announce.Config) { c.Address = "http://[::]:80" },
		`"http://a:0": port 0`:          func(c *announce.Config) { c.Address = "http://a:0" },
		`"http://a/x": must be scheme`:  func(c *announce.Config) { c.Address = "http://a/x" },
		`only ListenAndServe`:           func(c *announce.Config) { c.Address = "http://a:{port}" },
		`Instance "A b": must be 1`:     func(c *announce.Config) { c.Instance = "A b" },
		"Weight -1: must not":           func(c *announce.Config) { c.Weight = new(-1) },
		"AllowAnonymous: cannot stand":  func(c *announce.Config) { c.RequireAuth, c.AllowAnonymous = true, true },
		"Heartbeat 1ms: must be":        func(c *announce.Config) { c.Heartbeat = time.Millisecond },
		`Agent "https://a": the agent`:  func(c *announce.Config) { c.Agent = "https://a" },
		`Agent "a:8500": not like`:      func(c *announce.Config) { c.Agent = "a:8500" },
	} {
		c := good
		change(&c)
		if _, err := announce.Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
	}
	_, err := announce.Start(t.Context(), announce.Config{Agent: "x"})
	if n := strings.Count(err.Error(), "\n"); n != 3 {
		t.Errorf("%d faults: %v", n+1, err)
	}
}

func TestRefusedAtOnce(t *testing.T) {
	agent := announcetest.Start(t)
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusConflict, http.StatusTooManyRequests} {
		agent.Refuse(&announcetest.Problem{Status: status, Code: "invalid", Detail: `path "x": must begin with /`})
		_, err := announce.Start(t.Context(), config(agent))
		var refused *announce.RefusedError
		if !errors.As(err, &refused) || refused.Status != status || refused.Code != "invalid" || !strings.Contains(err.Error(), `path "x"`) {
			t.Errorf("%d: %v", status, err)
		}
	}
	wait(t, agent, count(0))
}

func TestAnnouncedEnds(t *testing.T) {
	agent := announcetest.Start(t)
	for event, want := range map[string]error{"superseded": announce.ErrSuperseded, "withdrawn": announce.ErrWithdrawn} {
		a := start(t, config(agent))
		agent.Send("warehouse", event, "by an operator")
		await(t, event, a.Done())
		if err := a.Err(); !errors.Is(err, want) || !strings.Contains(err.Error(), "by an operator") {
			t.Errorf("%s: %v", event, err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("%s: close: %v", event, err)
		}
		wait(t, agent, count(0))
	}
}

// An agent that crashes and comes back has the same instance again.
func TestAgentRestarts(t *testing.T) {
	agent := announcetest.Start(t)
	c := config(agent)
	var log bytes.Buffer
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	a := start(t, c)
	await(t, "ready", a.Ready())
	if err := a.SetStatus(announce.Degraded); err != nil {
		t.Fatal(err)
	}
	agent.Cut("warehouse")
	wait(t, agent, func(all []announcetest.Instance) bool {
		return len(all) == 1 && all[0].Status == "degraded" && all[0].Heartbeat == "10s"
	})
	if got := agent.Instances()[0]; got.InstanceID != "made-1" {
		t.Errorf("%+v", got)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if lines := strings.Count(log.String(), "the agent can't be reached"); lines != 1 {
		t.Errorf("%d lines in\n%s", lines, &log)
	}
}

func TestAgentComesLater(t *testing.T) {
	agent := announcetest.New()
	c := config(agent)
	dir := t.TempDir()
	t.Chdir(dir)
	c.Agent = "unix://agent.sock"
	a := start(t, c)
	if a.Status().State != announce.Connecting {
		t.Errorf("%+v", a.Status())
	}
	stop := agent.Listen(t, "agent.sock")
	defer stop()
	await(t, "ready", a.Ready())
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
