package api

import (
	"net/http"
	"slices"
	"strings"
)

// operation is a row of the table: what it is, what it takes, what it answers, and who does it.
type operation struct {
	name         string // unique; the operationId, and its name in the metrics
	method, path string // the path may end in /{key...}, or have segments in braces, as {node}
	summary      string
	text         string
	params       []param
	body         *body // nil: takes none
	answers      []answer
	// endless answers go on until the client or the agent goes.
	endless bool
	// gateway: there is no answer on a node that runs none.
	gateway bool
	serve   func(*API, *call) error
}

// param is a query parameter or a header.
type param struct {
	name   string
	header bool
	text   string
	values []string // the words that are allowed; nil: any text
	// repeated may be given several times, and is read by who takes the whole query.
	repeated bool
	required bool
}

// body is what an operation takes.
type body struct {
	types    []string
	document any // a value of the type of its JSON form; nil: any JSON
	limit    int64
}

// answer is a status that an operation answers with.
type answer struct {
	status   int
	text     string
	document any    // a value of the type of the document; nil: none
	media    string // of what is not application/json
}

const keySuffix = "/{key...}"

// match says whether the path is this operation's, and what stands for {key...} or the names in braces, in their order. Nothing is
// cleaned or redirected: a client that asks for a/../b must hear of it, and not write b.
func (op operation) match(path string) (named []string, ok bool) {
	if prefix, keyed := strings.CutSuffix(op.path, keySuffix); keyed {
		rest, ok := strings.CutPrefix(path, prefix+"/")
		return []string{rest}, ok
	}
	start := strings.IndexByte(op.path, '{')
	if start < 0 || !strings.HasPrefix(path, op.path[:start]) {
		return nil, op.path == path
	}
	want, got := strings.Split(op.path[start:], "/"), strings.Split(path[start:], "/")
	if len(want) != len(got) {
		return nil, false
	}
	for i := range want {
		switch {
		case !strings.HasPrefix(want[i], "{"):
			ok = want[i] == got[i]
		default:
			named, ok = append(named, got[i]), got[i] != ""
		}
		if !ok {
			return nil, false
		}
	}
	return named, true
}

// find returns the operation for a request. HEAD is answered as GET; net/http leaves the body out.
func (a *API) find(method, path string) (op operation, named []string, err error) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allow []string
	for _, op := range a.operations {
		named, ok := op.match(path)
		switch {
		case ok && op.method == method:
			return op, named, nil
		case ok:
			allow = append(allow, op.method)
		}
	}
	if allow == nil {
		return operation{}, nil, fail(codeNotFound, "path %q: the API has no such path; GET /v1/openapi.json lists them", path)
	}
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	slices.Sort(allow)
	f := fail(codeMethod, "method %s: %s takes %s", method, path, strings.Join(allow, ", "))
	f.allow = strings.Join(allow, ", ")
	return operation{}, nil, f
}
