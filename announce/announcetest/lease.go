package announcetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// aliveEvery is an agent's own pause between two lines that show that it lives.
const aliveEvery = 10 * time.Second

// Announcement is the body of POST /v1/announce, as far as it is known here.
type Announcement struct {
	RouteID          string            `json:"routeId"`
	InstanceID       string            `json:"instanceId"`
	Path             string            `json:"path"`
	PathRemovePrefix string            `json:"pathRemovePrefix"`
	RequireAuth      bool              `json:"requireAuth"`
	AllowAnonymous   bool              `json:"allowAnonymous"`
	Address          string            `json:"address"`
	Version          string            `json:"version"`
	Region           string            `json:"region"`
	Weight           *int              `json:"weight"`
	Status           string            `json:"status"`
	Heartbeat        string            `json:"heartbeat"`
	StartedAt        string            `json:"startedAt"`
	Labels           map[string]string `json:"labels"`
}

// Key is where every node has it.
func (a Announcement) Key() string { return "gateway/instances/" + a.RouteID + "/" + a.InstanceID }

// Heartbeat is the body of PATCH /v1/announce/{lease}.
type Heartbeat struct {
	Status    string   `json:"status"`
	Weight    *int     `json:"weight"`
	InFlight  *int     `json:"inFlight"`
	ErrorRate *float64 `json:"errorRate"`
}

// Straggler is a gateway that did not confirm.
type Straggler struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// Problem is a refusal.
type Problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func (p *Problem) answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// lease is one connection.
type lease struct {
	id       string
	instance Instance // guarded by the agent's mu, as drained
	drained  bool
	out      chan []byte
	ended    context.Context
	cut      context.CancelFunc
}

// send hands an event to the connection, or drops it with the connection.
func (l *lease) send(e line) {
	select {
	case l.out <- e.encode():
	case <-l.ended.Done():
		return
	}
	switch e["event"] {
	case "superseded", "withdrawn", "restarting":
		l.cut()
	}
}

func (a *Agent) announce(w http.ResponseWriter, r *http.Request) {
	it, problem := a.read(r)
	if problem != nil {
		problem.answer(w)
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	l := a.hold(r.Context(), Instance{Announcement: it, Token: token, Draining: it.Status == "draining"})
	defer func() {
		l.cut()
		a.change(func() { delete(a.leases, l.id) })
	}()
	w.Header().Set("Content-Type", "application/x-ndjson")
	a.write(w, l)
}

// write sends the lease's events until it ends.
func (a *Agent) write(w http.ResponseWriter, l *lease) {
	flush := http.NewResponseController(w).Flush
	it := l.instance.Announcement // nobody changes that
	first := append(line{
		"event": "accepted", "lease": l.id, "routeId": it.RouteID, "instanceId": it.InstanceID,
		"node": "01testagent", "incarnation": 1, "key": it.Key(), "effective": nil, "notices": []string{},
	}.encode(), line{"event": "applied", "nodes": Gateways, "of": Gateways}.encode()...)
	w.Write(first)
	flush()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		var data []byte
		select {
		case data = <-l.out:
		case <-alive.C:
			if a.isMute() {
				continue
			}
			data = line{"event": "alive"}.encode()
		case <-l.ended.Done():
			for len(l.out) > 0 { // why it ended
				w.Write(<-l.out)
			}
			return
		}
		w.Write(data)
		flush()
	}
}

func (a *Agent) isMute() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mute
}

// read decodes an announcement, strictly.
func (a *Agent) read(r *http.Request) (Announcement, *Problem) {
	var it Announcement
	decoder := json.NewDecoder(io.LimitReader(r.Body, 64<<10))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&it); err != nil {
		return it, &Problem{http.StatusBadRequest, "bad_request", err.Error()}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refusal != nil {
		return it, a.refusal
	}
	for _, field := range []struct{ name, value string }{{"routeId", it.RouteID}, {"path", it.Path}, {"address", it.Address}} {
		if field.value == "" {
			return it, &Problem{http.StatusUnprocessableEntity, "invalid", field.name + ": is missing"}
		}
	}
	return it, nil
}

// hold makes a lease. One of the same instance ends.
func (a *Agent) hold(ctx context.Context, it Instance) *lease {
	var former *lease
	l := &lease{out: make(chan []byte, 16)} // lines that a test sends in a row without waiting
	l.ended, l.cut = context.WithCancel(ctx)
	a.change(func() {
		a.made++
		l.id = fmt.Sprintf("lease-%d", a.made)
		if it.InstanceID == "" {
			it.InstanceID = fmt.Sprintf("made-%d", a.made)
		}
		it.Lease = l.id
		l.instance = it
		for _, other := range a.leases {
			if other.instance.Key() == it.Key() {
				former = other
			}
		}
		if former != nil {
			delete(a.leases, former.id)
		}
		a.leases[l.id] = l
	})
	if former != nil {
		former.send(line{"event": "superseded", "reason": "announced on another connection"})
	}
	return l
}

// find gives the lease of a call, or answers that there is none.
func (a *Agent) find(w http.ResponseWriter, r *http.Request) *lease {
	a.mu.Lock()
	l := a.leases[r.PathValue("lease")]
	a.mu.Unlock()
	if l == nil {
		(&Problem{http.StatusNotFound, "not_found", "no such lease"}).answer(w)
	}
	return l
}

func (a *Agent) patch(w http.ResponseWriter, r *http.Request) {
	var beat Heartbeat
	decoder := json.NewDecoder(io.LimitReader(r.Body, 64<<10))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&beat); err != nil {
		(&Problem{http.StatusBadRequest, "bad_request", err.Error()}).answer(w)
		return
	}
	l := a.find(w, r)
	if l == nil {
		return
	}
	a.change(func() { l.instance.Last = beat; l.instance.Beats++ })
	json.NewEncoder(w).Encode(map[string]string{"status": beat.Status})
}

func (a *Agent) drain(w http.ResponseWriter, r *http.Request) {
	timeout, err := time.ParseDuration(r.FormValue("timeout"))
	if err != nil {
		(&Problem{http.StatusBadRequest, "bad_request", "timeout: " + err.Error()}).answer(w)
		return
	}
	l := a.find(w, r)
	if l == nil {
		return
	}
	var stragglers []Straggler
	a.change(func() {
		stragglers = a.stragglers
		l.instance.Draining = true
		if !l.drained {
			l.drained = true
			a.drains[l.instance.RouteID]++
		}
	})
	l.send(line{"event": "draining", "by": "client", "reason": "asked for"})
	began := time.Now()
	if waitFor(r.Context(), stragglers, timeout) != nil {
		return
	}
	answer := line{
		"confirmed": Gateways - len(stragglers), "of": Gateways,
		"stragglers": append([]Straggler{}, stragglers...), "took": time.Since(began).String(),
	}
	w.Write(answer.encode())
	answer["event"] = "drained"
	l.send(answer)
}

// waitFor waits for stragglers, in vain.
func waitFor(ctx context.Context, stragglers []Straggler, timeout time.Duration) error {
	if len(stragglers) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return nil
}

func (a *Agent) withdraw(w http.ResponseWriter, r *http.Request) {
	if l := a.find(w, r); l != nil {
		l.cut()
		w.WriteHeader(http.StatusNoContent)
	}
}
