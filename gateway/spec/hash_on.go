package spec

import (
	"errors"
	"strings"
)

// HashOn is what the balance by hash looks at.
type HashOn string

// UnmarshalText reads ip, path, header:NAME, cookie:NAME or query:NAME.
func (h *HashOn) UnmarshalText(text []byte) error {
	what, name, named := strings.Cut(string(text), ":")
	switch {
	case (what == "ip" || what == "path") && !named:
	case (what == "header" || what == "cookie") && tokenSyntax.MatchString(name):
	case what == "query" && name != "":
	default:
		return errors.New("must be ip, path, header:NAME, cookie:NAME or query:NAME")
	}
	*h = HashOn(text)
	return nil
}

func (HashOn) pattern() string { return `^(ip|path|(header|cookie|query):.+)$` }
