package gateway

import (
	"bytes"
	"fmt"
	"strings"

	"grapevine/gateway/exchange"
	"grapevine/gateway/routing"
)

// dispatch finds the route of a request and lets it answer.
func (t *Table) dispatch(x *exchange.Exchange) {
	metrics := t.stray
	defer func() { x.OnFinish(metrics) }()
	if x.Request.Method == "CONNECT" {
		x.Fail(exchange.Problem{Status: 501, Code: "method_not_supported", Detail: "The gateway opens no tunnels."})
		return
	}
	if string(x.Request.Target) == "*" && x.Request.Method == "OPTIONS" {
		x.Response.Status = 204 // about the server as a whole (RFC 9110 §9.3.7): it is there
		return
	}
	path, query, err := splitTarget(x.Request.Target)
	if err != nil {
		x.Fail(exchange.Problem{Status: 400, Code: "bad_path", Detail: err.Error()})
		return
	}
	match, err := t.match(&x.Request, path)
	if err != nil {
		x.Fail(exchange.Problem{Status: 400, Code: "bad_path", Detail: err.Error()})
		return
	}
	if match.Index < 0 {
		failUnmatched(x, match.Allow)
		return
	}
	r := t.routes[match.Index]
	x.Route, metrics = r.id, r.metrics
	if r.cluster == nil {
		x.Fail(exchange.Problem{
			Status: 503, Code: "route_quarantined", Detail: fmt.Sprintf("Route %s has no valid configuration.", r.id),
			Fields: exchange.Fields{retryAfter},
		})
		return
	}
	x.Request.Target = forwardTarget(path, query, r.strip)
	r.cluster.forward(x, r.bounds)
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

// match decides by the canonical path. A path with %2F is refused when a
// backend that decodes it would see the path of another route.
func (t *Table) match(req *exchange.Request, path requestPath) (routing.Match, error) {
	ask := routing.Request{Method: req.Method, Host: routing.Hostname(req.Authority), Path: path.Canonical}
	found := t.matcher.Match(ask)
	if !path.EncodedSlash {
		return found, nil
	}
	seen, err := path.DecodeSlashes()
	if err != nil {
		return found, err
	}
	ask.Path = seen.Canonical
	if other := t.matcher.Match(ask); other.Index != found.Index {
		return found, &routing.PathError{Path: string(path.raw), Problem: "with %2F decoded it is the path of another route"}
	}
	return found, nil
}

// forwardTarget is what the backend receives: the raw path when only its
// encoding differs from the canonical one, less the segments that the route
// strips, and the query as it came.
func forwardTarget(path requestPath, query []byte, strip int) []byte {
	from := path.raw
	if path.Restructured {
		from = path.Canonical
	}
	rest := routing.CutSegments(from, strip)
	return append(rest[:len(rest):len(rest)], query...)
}

func failUnmatched(x *exchange.Exchange, allow []string) {
	if len(allow) == 0 {
		x.Fail(exchange.Problem{Status: 404, Code: "no_route", Detail: "No route takes this host and path."})
		return
	}
	x.Fail(exchange.Problem{
		Status: 405, Code: "method_not_allowed", Detail: fmt.Sprintf("Routes take this path with %s.", strings.Join(allow, ", ")),
		Fields: exchange.Fields{{Name: []byte("Allow"), Value: []byte(strings.Join(allow, ", "))}},
	})
}
