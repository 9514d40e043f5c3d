package api

import (
	"net/url"
	"slices"
	"strings"
)

// query holds the parameters of a request, each one that its operation knows; of one that may be repeated it has the first.
type query map[string]string

// parseQuery refuses what it doesn't know: a dry run that is misspelt would write.
func parseQuery(raw string, params []param) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fail(codeBadRequest, "query %q: %v", raw, err)
	}
	q := make(query, len(values))
	for name, given := range values {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name && !p.header })
		switch {
		case i < 0:
			return nil, fail(codeBadRequest, "query parameter %q: not known here%s", name, known(params))
		case len(given) > 1 && !params[i].repeated:
			return nil, fail(codeBadRequest, "query parameter %q: given %d times", name, len(given))
		case params[i].values != nil && !slices.Contains(params[i].values, given[0]):
			return nil, fail(codeBadRequest, "query parameter %s %q: must be %s", name, given[0],
				strings.Join(params[i].values, " or "))
		}
		q[name] = given[0]
	}
	for _, p := range params {
		if p.required && q[p.name] == "" {
			return nil, fail(codeBadRequest, "query parameter %q: is missing", p.name)
		}
	}
	return q, nil
}

func known(params []param) string {
	var names []string
	for _, p := range params {
		if !p.header {
			names = append(names, p.name)
		}
	}
	if names == nil {
		return ", as none is"
	}
	return "; known are " + strings.Join(names, ", ")
}

// on reads a switch; given without a value it is on.
func (q query) on(name string) bool {
	value, given := q[name]
	return given && value != "0" && value != "false"
}
