package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/routing"
)

// dispatch finds the route of a request and lets it answer.
func (t *Table) dispatch(x *exchange.Exchange) {
	var path requestPath
	r, query := t.choose(x, &path)
	if r == nil {
		x.OnFinish(t.stray)
		return
	}
	x.Route = r.id
	x.OnFinish(r.metrics)
	c := r.choose(&x.Request)
	if t.windows != nil && t.turnAway(x, c) {
		r.response.Apply(&x.Response.Fields)
		return
	}
	r.serve(x, c, &path, query)
}

// turnAway answers when a maintenance keeps the client from the cluster, which is
// nil where the gateway itself would answer.
func (t *Table) turnAway(x *exchange.Exchange, c *cluster) bool {
	now := time.Now()
	w := t.windows.against(c.name(), x.Request.Client, now)
	if w != nil {
		w.turnAway(x, now)
	}
	return w != nil
}

// choose gives the route and the two parts of the target, or answers.
func (t *Table) choose(x *exchange.Exchange, path *requestPath) (r *route, query []byte) {
	if x.Request.Method == "CONNECT" {
		x.Fail(exchange.Problem{Status: 501, Code: "method_not_supported", Detail: "The gateway opens no tunnels."})
		return nil, nil
	}
	if string(x.Request.Target) == "*" && x.Request.Method == "OPTIONS" {
		x.Response.Status = 204 // about the server as a whole (RFC 9110 §9.3.7): it is there
		return nil, nil
	}
	var err error
	if *path, query, err = splitTarget(x.Request.Target); err != nil {
		failBadPath(x, err)
		return nil, nil
	}
	r, allow, err := t.match(&x.Request, *path, query)
	switch {
	case err != nil:
		failMatch(x, err)
		return nil, nil
	case r == nil:
		failUnmatched(x, allow)
	}
	return r, query
}

// requestPath is a path in both forms.
type requestPath struct {
	raw []byte
	routing.Path
}

// splitTarget cuts the raw target at the first "?"; query keeps it.
func splitTarget(target []byte) (path requestPath, query []byte, err error) {
	path.raw = target
	if mark := bytes.IndexByte(target, '?'); mark >= 0 {
		path.raw, query = target[:mark], target[mark:]
	}
	if bytes.IndexByte(query, '#') >= 0 {
		return path, nil, &routing.PathError{Path: string(target), Problem: `"#": a fragment is never sent`}
	}
	path.Path, err = routing.Canonical(path.raw)
	return path, query, err
}

// question is what a match needs in memory.
type question struct {
	routing.Request
	host [256]byte
}

var questions = sync.Pool{New: func() any { return new(question) }}

// match decides by the canonical path. A path is refused when a backend that
// reads it more leniently would see the path of another route.
func (t *Table) match(req *exchange.Request, path requestPath, query []byte) (*route, []string, error) {
	q := questions.Get().(*question)
	defer func() {
		q.Request = routing.Request{}
		questions.Put(q)
	}()
	host, err := routing.Hostname(req.Authority, q.host[:0])
	if err != nil {
		return nil, nil, err
	}
	q.Request = routing.Request{
		Method: req.Method, Host: host, Path: path.Canonical, Query: query,
		Fields: req.Fields, Client: req.Client.Unmap().WithZone(""), // ranges have no zones
	}
	found := t.trie.Match(&q.Request)
	if found.Err != nil {
		return nil, nil, found.Err
	}
	r := routeOf(found)
	if path.Marks == 0 && (r == nil || r.policy == routing.Policy{}) {
		return r, found.Allow, nil
	}
	if err := t.readLeniently(q, path, r); err != nil {
		return nil, nil, err
	}
	return r, found.Allow, nil
}

// readLeniently refuses a path that r does not want, or that other servers would
// take for another route's.
func (t *Table) readLeniently(q *question, path requestPath, r *route) error {
	var policy routing.Policy
	if r != nil {
		policy = r.policy
	}
	if err := policy.Check(path.raw, path.Marks); err != nil {
		return err
	}
	for seen := range policy.Lenient(path.Path) {
		q.Path = seen
		if other := t.trie.Match(&q.Request); other.Err != nil || other.Rule != nil && routeOf(other) != r {
			return routing.ErrAmbiguous(path.raw)
		}
	}
	return nil
}

func routeOf(m routing.Match) *route {
	if m.Rule == nil {
		return nil
	}
	return m.Rule.Value.(*route)
}

// forwardable is the path that a backend may see: the raw one when only its
// encoding differs from the canonical one.
func (p *requestPath) forwardable() []byte {
	if p.Restructured {
		return p.Canonical
	}
	return p.raw
}

func failBadPath(x *exchange.Exchange, err error) {
	x.Fail(exchange.Problem{Status: 400, Code: "bad_path", Detail: err.Error()})
}

// failMatch answers for a request that no route may be chosen for.
func failMatch(x *exchange.Exchange, err error) {
	_, badHost := errors.AsType[*routing.HostError](err)
	switch {
	case badHost:
		x.Fail(exchange.Problem{Status: 400, Code: "bad_host", Detail: err.Error()})
	case errors.Is(err, routing.ErrAmbiguousHeader):
		x.Fail(exchange.Problem{Status: 400, Code: "ambiguous_header", Detail: err.Error()})
	case errors.Is(err, routing.ErrAmbiguousQuery):
		failAmbiguousQuery(x, err)
	default:
		failBadPath(x, err)
	}
}

func failAmbiguousQuery(x *exchange.Exchange, err error) {
	x.Fail(exchange.Problem{Status: 400, Code: "ambiguous_query", Detail: err.Error()})
}

const noRoute = "No route takes this host and path."

func failUnmatched(x *exchange.Exchange, allow []string) {
	if len(allow) == 0 {
		x.Fail(exchange.Problem{Status: 404, Code: "no_route", Detail: noRoute})
		return
	}
	x.Fail(exchange.Problem{
		Status: 405, Code: "method_not_allowed", Detail: fmt.Sprintf("Routes take this path with %s.", strings.Join(allow, ", ")),
		Fields: exchange.Fields{{Name: []byte("Allow"), Value: []byte(strings.Join(allow, ", "))}},
	})
}
