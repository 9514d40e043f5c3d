package gateway

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"grapevine/gateway/exchange"
	"grapevine/gateway/routing"
)

// Question is a request that nobody sent, put to the live table.
type Question struct {
	Method string // "" is GET
	// URL is absolute, or a path with its query for any host.
	URL    string
	Fields exchange.Fields
	// Client is the address that conditions on clients look at. The zero Addr
	// meets no such condition.
	Client netip.Addr
}

// Explanation says what the live table would do with a request, and why.
type Explanation struct {
	Rev  string `json:"rev" doc:"revision of the table"`
	Hash string `json:"hash" doc:"hash of the table, equal on nodes that serve the same"`

	Method string `json:"method" doc:"as it is matched"`
	Host   string `json:"host" doc:"as it is matched; empty for none"`
	Path   string `json:"path" doc:"as sent"`
	Match  string `json:"match" doc:"the canonical path, which is matched"`
	Client string `json:"client" doc:"address that conditions on clients look at; empty when unknown"`

	Route  string `json:"route" doc:"the one that takes the request; empty when none does"`
	Status int    `json:"status,omitempty" doc:"of the gateway's own answer; absent when the request is forwarded"`
	Code   string `json:"code,omitempty" doc:"of the problem, when the gateway refuses the request"`
	Detail string `json:"detail" doc:"what decided, as a sentence"`

	Maintenance []MaintenanceStatus `json:"maintenance,omitempty" doc:"those that are in force for it; one that lets the client through is among them"`
	Split       []SplitPart         `json:"split,omitempty" doc:"the clusters that the route's requests are divided between"`

	Candidates []Candidate `json:"candidates" doc:"routes whose host and path take the request, in the order in which they are tried"`
	Forward    *Forward    `json:"forward,omitempty" doc:"what a backend would receive, if it gets so far; absent when the gateway answers itself"`
}

// Candidate is a route in the order of those that were tried.
type Candidate struct {
	ID     string `json:"id" doc:"of the route"`
	Order  int    `json:"order" doc:"its order; lower is tried first"`
	Host   string `json:"host" doc:"the pattern that took the host; empty for any"`
	Path   string `json:"path" doc:"template, or ~ and the expression"`
	Source string `json:"source" doc:"operator, announced or static"`
	State  string `json:"state" doc:"taken, failed (a condition does not hold) or later (tried after the one that is taken)"`
	Why    string `json:"why" doc:"which condition failed, by which rule it comes later, or what decided"`
}

// The states of a candidate.
const (
	candidateTaken  = "taken"
	candidateFailed = "failed"
	candidateLater  = "later"
)

// Explain says what the table would do with a request. The error is about the
// question: its URL can't be read.
func (t *Table) Explain(q Question) (Explanation, error) {
	x, path, query, err := q.exchange()
	if err != nil {
		return Explanation{}, err
	}
	matched := t.receive(&x.Request)
	e := Explanation{Rev: t.Rev().String(), Hash: t.Hash(), Method: x.Request.Method, Candidates: []Candidate{}}
	if x.Request.Client.IsValid() {
		e.Client = x.Request.Client.String()
	}
	host, _ := routing.Hostname(x.Request.Authority, nil) // match says what is wrong with it
	e.Host = string(host)
	e.Path, e.Match = string(path.raw), string(path.Canonical)
	r, allow, err := t.match(&matched, path, query)
	e.Candidates = t.candidates(&routing.Request{
		Method: x.Request.Method, Host: []byte(e.Host), Path: path.Canonical, Query: query, Fields: matched.Fields, Client: matched.Client,
	}, r)
	t.decide(&e, x, r, allow, err, path, query)
	return e, nil
}

// exchange makes the request that is asked about.
func (q Question) exchange() (x *exchange.Exchange, path requestPath, query []byte, err error) {
	target, _, _ := strings.Cut(q.URL, "#") // a client keeps the fragment to itself
	authority, scheme := "", "http"
	if !strings.HasPrefix(target, "/") {
		before, rest, found := strings.Cut(target, "://")
		scheme = strings.ToLower(before)
		if !found || scheme != "http" && scheme != "https" {
			return nil, path, nil, fmt.Errorf("url %q: is neither an http or https URL nor a path that begins with /", q.URL)
		}
		if authority, target = rest, "/"; rest == "" || rest[0] == '/' {
			return nil, path, nil, fmt.Errorf("url %q: names no host", q.URL)
		}
		if end := strings.IndexAny(rest, "/?"); end >= 0 {
			authority, target = rest[:end], "/"+strings.TrimPrefix(rest[end:], "/")
		}
	}
	if _, err := routing.Hostname([]byte(authority), nil); err != nil {
		return nil, path, nil, fmt.Errorf("url %q: %w", q.URL, err)
	}
	if i := strings.IndexFunc(target, func(r rune) bool { return r <= ' ' || r >= 0x7f }); i >= 0 {
		return nil, path, nil, fmt.Errorf("url %q: write %q as escapes, as a client does", q.URL, target[i:i+1])
	}
	x = &exchange.Exchange{Request: exchange.Request{
		Method: strings.ToUpper(q.Method), Authority: []byte(authority), Target: []byte(target), Scheme: scheme,
		Fields: slices.Clone(q.Fields), Client: q.Client.Unmap(),
	}}
	if x.Request.Method == "" {
		x.Request.Method = "GET"
	}
	path, query, err = splitTarget(x.Request.Target)
	if err != nil {
		return nil, path, nil, fmt.Errorf("url %q: %w", q.URL, err)
	}
	return x, path, query, nil
}

// receive does to a request what is done before it is matched, as far as that
// follows from the question, and gives it as it is matched: with the forwarding
// fields that every request gets. Those asked about are taken for a trusted
// proxy's.
func (t *Table) receive(req *exchange.Request) exchange.Request {
	req.Fields.DropHopByHop()
	req.Fields.DelFunc(underscoreTwin)
	matched := exchange.Exchange{Request: *req}
	matched.Request.Fields = slices.Clone(req.Fields)
	t.believe(&matched.Request)
	matched.Request.Client = req.Client
	t.stampForwarded(&matched)
	return matched.Request
}

// candidates lists what is tried, and how each came off.
func (t *Table) candidates(ask *routing.Request, taken *route) []Candidate {
	list := []Candidate{}
	var winner *routing.Candidate
	for _, c := range t.trie.Candidates(ask) {
		r := c.Rule.Value.(*route)
		row := Candidate{
			ID: r.id, Order: c.Rule.Order, Host: c.Host, Path: pathOf(r.planned.spec), Source: r.planned.layer,
			State: candidateFailed,
		}
		var refused bool
		row.Why, refused = c.Fails(ask)
		switch {
		case winner != nil:
			row.State, row.Why = candidateLater, c.Behind(*winner)
		case refused:
			winner = &c
		case row.Why == "":
			winner = &c
			row.State, row.Why = candidateTaken, "the first whose conditions hold"
			if r != taken {
				row.State, row.Why = candidateFailed, "it would be taken, but the request is refused"
			}
		}
		list = append(list, row)
	}
	return list
}

// decide fills in the outcome.
func (t *Table) decide(e *Explanation, x *exchange.Exchange, r *route, allow []string, err error, path requestPath, query []byte) {
	kind := t.probeAt(x.Request.Target)
	switch {
	case x.Request.Method == "CONNECT":
		e.Status, e.Code, e.Detail = 501, "method_not_supported", "The gateway opens no tunnels."
		e.Candidates = []Candidate{}
		return
	case kind != 0:
		t.decideProbe(e, kind)
		return
	case err != nil:
		failMatch(x, err)
	case r == nil:
		failUnmatched(x, allow)
	default:
		e.Route = r.id
		t.decideRoute(e, x, r, path, query)
		return
	}
	e.Status, e.Code, e.Detail = x.Response.Status, x.Reason, detailOf(err, allow)
}

// decideProbe tells what a node answers that nobody has begun to drain.
func (t *Table) decideProbe(e *Explanation, kind probe) {
	e.Status, e.Detail = 200, "The gateway answers probes of its health itself; no route takes them."
	e.Candidates = []Candidate{}
	ready, reason := t.required()
	switch {
	case e.Method != "GET" && e.Method != "HEAD":
		e.Status, e.Code, e.Detail = 405, "method_not_allowed", "Probes take GET and HEAD."
	case kind == probeReady && !ready:
		e.Status, e.Code, e.Detail = 503, "not_ready", reason
	}
}

func detailOf(err error, allow []string) string {
	switch {
	case err != nil:
		return err.Error()
	case len(allow) > 0:
		return fmt.Sprintf("Routes take this path with %s.", strings.Join(allow, ", "))
	default:
		return noRoute
	}
}

func (t *Table) decideRoute(e *Explanation, x *exchange.Exchange, r *route, path requestPath, query []byte) {
	c := r.wouldChoose(&x.Request)
	e.Split = t.splitOf(r, c)
	away := t.explainMaintenance(e, c, x.Request.Client)
	switch {
	case r.answer != nil:
		r.serve(x, nil, &path, query)
		e.Status, e.Detail = x.Response.Status, fmt.Sprintf("Route %s answers itself.", r.id)
		if to := x.Response.Fields.Get("Location"); to != nil {
			e.Detail = fmt.Sprintf("Route %s redirects to %s", r.id, to)
		}
	case c == nil:
		e.Status, e.Code = 503, "route_quarantined"
		e.Detail = fmt.Sprintf("Route %s has no valid configuration: %s", r.id, r.planned.problem)
	default:
		if err := r.change(x, &path, query); err != nil {
			failChange(x, err)
			e.Status, e.Code, e.Detail = x.Response.Status, x.Reason, err.Error()
			break
		}
		e.Forward = c.forwards(x)
		e.Status, e.Code, e.Detail = c.would(e.Forward, r, &x.Request)
	}
	if away != nil {
		e.Status, e.Code, e.Detail = 503, codeMaintenance, away.excuse(r)
	}
}
