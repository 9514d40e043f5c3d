package action

import (
	"bytes"
	"cmp"
	"net/http"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// Redirect answers with a Location.
type Redirect struct {
	status   int
	template spec.Template
	to       spec.TargetParts
}

var _ exchange.Handler = (*Redirect)(nil)

// NewRedirect reads the redirect of a route that has one.
func NewRedirect(r *spec.Route) *Redirect {
	return &Redirect{
		status:   cmp.Or(r.Redirect.Status, http.StatusPermanentRedirect),
		template: r.Path.Template(), to: r.Redirect.To.Parts(),
	}
}

// Serve reads path and query from the request's target, whose path is the one
// that would be forwarded.
func (r *Redirect) Serve(x *exchange.Exchange) {
	path, query := splitTarget(x.Request.Target)
	location := r.location(path, query)
	x.Respond(r.status, "text/plain; charset=utf-8", append(append([]byte("See "), location...), '\n'))
	x.Response.Fields = append(x.Response.Fields, exchange.Field{Name: []byte("Location"), Value: location})
	if x.Request.Method == http.MethodHead {
		x.Response.Body = nil
	}
}

// splitTarget cuts at the first "?", which query keeps.
func splitTarget(target []byte) (path, query []byte) {
	if mark := bytes.IndexByte(target, '?'); mark >= 0 {
		return target[:mark], target[mark:]
	}
	return target, nil
}

// location splices what the client sent as it was sent, but for bytes that no
// URL may hold, which a client may take for something else.
func (r *Redirect) location(path, query []byte) []byte {
	captures := Captures(r.template, path)
	to := make([]byte, 0, len(r.to.Origin)+len(path)+len(query)+64)
	to = append(to, r.to.Origin...)
	for _, piece := range r.to.Path {
		if piece.Placeholder {
			to = appendEscaped(to, captures[piece.Text])
		} else {
			to = append(to, piece.Text...)
		}
	}
	if r.to.Origin == "" {
		to = oneSlash(to)
	}
	switch r.to.Query {
	case "":
		to = appendEscaped(to, query)
	case "?": // without a query
	default:
		to = append(to, r.to.Query...)
	}
	return append(to, r.to.Fragment...)
}

// oneSlash keeps a path from being read as //host (RFC 3986 §4.2), which a
// capture that is empty could make of it.
func oneSlash(path []byte) []byte {
	return append([]byte("/"), bytes.TrimLeft(path, "/")...)
}

// appendEscaped escapes what may not stand in a URL. Browsers take "\" for "/".
func appendEscaped(to, raw []byte) []byte {
	const hex = "0123456789ABCDEF"
	for _, c := range raw {
		if c <= ' ' || c >= 0x7f || bytes.IndexByte([]byte("\"#<>\\^`{|}"), c) >= 0 {
			to = append(to, '%', hex[c>>4], hex[c&15])
			continue
		}
		to = append(to, c)
	}
	return to
}
