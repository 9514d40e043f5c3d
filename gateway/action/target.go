package action

import (
	"fmt"
	"regexp"
	"slices"

	"grapevine/gateway/routing"
	"grapevine/gateway/spec"
)

// maxPath bounds what a rewrite makes of a path. It is far above what servers
// take, and keeps a short path from becoming megabytes.
const maxPath = 64 << 10

// Target makes the request target that a backend gets. The zero Target changes
// nothing.
type Target struct {
	remove  int    // leading segments
	prefix  []byte // without a trailing slash; empty: none
	rewrite *rewrite
	query   *query
}

// NewTarget reads pathRemovePrefix, pathPrefix, rewrite and transforms.query.
func NewTarget(r *spec.Route) *Target {
	t := &Target{remove: len(r.PathRemovePrefix.Template().Segments)}
	if r.PathPrefix != "/" {
		t.prefix = []byte(r.PathPrefix)
	}
	if r.Rewrite != nil {
		t.rewrite = newRewrite(r)
	}
	if r.Changes != nil && r.Changes.Query != nil {
		t.query = newQuery(r.Changes.Query)
	}
	return t
}

// Apply gives the target for a path that is to be forwarded, as sent or
// canonical (see routing.Path), and a query that is empty or begins with "?".
// Neither is changed, and the result may share their memory.
//
// The error is a *routing.PathError when the rewrite makes a path that must not
// be forwarded, and an *exchange.QueryError when a parameter has to be changed in
// a query that servers read in different ways. Either is the request's fault.
func (t *Target) Apply(path, query []byte) (target []byte, err error) {
	if t.query != nil {
		if query, err = t.query.apply(query); err != nil {
			return nil, err
		}
	}
	if t.rewrite != nil {
		if path, err = t.rewrite.apply(path); err != nil {
			return nil, err
		}
		return join(path, query), nil
	}
	return t.replacePrefix(path, query), nil
}

// replacePrefix puts the prefix in the place of the first segments. It works on
// whole segments, so that it neither sees a decoded byte nor makes a dot segment.
func (t *Target) replacePrefix(path, query []byte) []byte {
	rest := cutSegments(path, t.remove)
	switch {
	case len(t.prefix) > 0:
		return slices.Concat(t.prefix, rest, query)
	case len(rest) == 0:
		return join(path[:len("/")], query)
	default:
		return join(rest, query)
	}
}

// join copies only if it has to: a path that was cut off a target is still in
// front of its query.
func join(path, query []byte) []byte {
	end := len(path) + len(query)
	if len(query) == 0 || end <= cap(path) && &path[:end][len(path)] == &query[0] {
		return path[:end:end]
	}
	return append(path[:len(path):len(path)], query...)
}

// rewrite is regexp.ReplaceAll. It looks at the path in the encoding of
// routing.Path, in which a spelling such as %70 neither hides what is looked for
// nor passes for something else. What it does not replace, and what its groups
// hold, stays as it came, byte for byte.
type rewrite struct {
	regex  *regexp.Regexp
	to     []byte
	policy routing.Policy
}

func newRewrite(r *spec.Route) *rewrite {
	regex := r.Rewrite.Regex
	if r.CaseInsensitive {
		regex = "(?i:" + regex + ")"
	}
	w := &rewrite{regex: regex.Compile(), to: []byte(r.Rewrite.To)}
	if r.PathPolicy != nil { // what it refuses is refused to clients
		w.policy = routing.NewPolicy(&spec.Route{PathPolicy: &spec.PathPolicy{Allow: r.PathPolicy.Allow}})
	}
	return w
}

func (w *rewrite) apply(raw []byte) ([]byte, error) {
	normal, err := routing.Canonical(raw)
	if err != nil {
		return nil, err
	}
	found := w.regex.FindAllSubmatchIndex(normal.Canonical, -1)
	if found == nil {
		return raw, nil
	}
	if &raw[0] != &normal.Canonical[0] {
		inRaw(found, routing.Offsets(raw))
	}
	replaced := make([]byte, 0, len(raw)+len(w.to))
	from := 0
	for _, match := range found {
		replaced = append(replaced, raw[from:match[0]]...)
		replaced = w.regex.Expand(replaced, w.to, raw, match)
		if from = match[1]; len(replaced)+len(raw)-from > maxPath {
			return nil, &routing.PathError{Path: string(raw), Problem: fmt.Sprintf("the rewrite makes it longer than %d bytes", maxPath)}
		}
	}
	replaced = append(replaced, raw[from:]...)
	if len(replaced) == 0 || replaced[0] != '/' {
		replaced = append([]byte("/"), replaced...)
	}
	return w.forwardable(replaced)
}

// inRaw turns places in the canonical path into those in the raw one.
func inRaw(found [][]int, offsets []int) {
	for _, match := range found {
		for i, place := range match {
			if place >= 0 { // else the group is not there
				match[i] = offsets[place]
			}
		}
	}
}

// forwardable gives the form of a rewritten path that is forwarded, by the rule
// for a path that a client sent.
func (w *rewrite) forwardable(raw []byte) ([]byte, error) {
	path, err := routing.Canonical(raw)
	switch {
	case err != nil:
		return nil, err
	case path.Marks&routing.DotSegment != 0:
		return nil, &routing.PathError{Path: string(raw), Problem: "the rewrite makes a dot segment"}
	case path.Restructured:
		raw = path.Canonical
	}
	if err := w.policy.Check(raw, path.Marks); err != nil {
		return nil, err
	}
	return raw, nil
}
