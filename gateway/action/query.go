package action

import (
	"maps"
	"net/url"
	"slices"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// query removes and sets parameters of a raw query. The others keep their bytes
// and their order.
type query struct {
	remove []string
	set    []parameter
}

// parameter is one to set, and how it is written.
type parameter struct{ name, encoded string }

func newQuery(s *spec.QueryChanges) *query {
	q := &query{remove: s.Remove}
	for _, name := range slices.Sorted(maps.Keys(s.Set)) {
		q.set = append(q.set, parameter{name, url.QueryEscape(name) + "=" + url.QueryEscape(s.Set[name])})
	}
	return q
}

// apply changes a query that is empty or begins with "?". One that is left
// without parameters is empty.
func (q *query) apply(raw []byte) ([]byte, error) {
	parsed, err := exchange.ParseQuery(raw)
	switch {
	case err != nil:
		return nil, err
	case len(q.set) == 0 && !q.removesFrom(parsed):
		return raw, nil
	}
	return q.changed(parsed, len(raw)), nil
}

func (q *query) removesFrom(parsed exchange.Query) bool {
	for p := range parsed.All() {
		if q.removes(p) {
			return true
		}
	}
	return false
}

func (q *query) removes(p exchange.Parameter) bool {
	for _, name := range q.remove {
		if p.Named(name) {
			return true
		}
	}
	return false
}

// changed lets a set parameter stand where it stood first, else at the end.
func (q *query) changed(parsed exchange.Query, size int) []byte {
	for _, p := range q.set {
		size += len(p.encoded) + len("&")
	}
	changed := make([]byte, 0, size+len("?"))
	var done [32]bool // on the stack; more are rare
	isSet := append(done[:0], make([]bool, len(q.set))...)
	for p := range parsed.All() {
		i := q.indexOf(p)
		switch {
		case q.removes(p):
		case i < 0:
			changed = append(append(changed, separator(changed)), p.Raw...)
		case !isSet[i]:
			isSet[i] = true
			changed = append(append(changed, separator(changed)), q.set[i].encoded...)
		}
	}
	for i, p := range q.set {
		if !isSet[i] {
			changed = append(append(changed, separator(changed)), p.encoded...)
		}
	}
	return changed
}

// indexOf is which of the parameters to set p is, or -1.
func (q *query) indexOf(p exchange.Parameter) int {
	for i := range q.set {
		if p.Named(q.set[i].name) {
			return i
		}
	}
	return -1
}

// separator is what comes before the next parameter.
func separator(written []byte) byte {
	if len(written) == 0 {
		return '?'
	}
	return '&'
}
