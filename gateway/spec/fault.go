package spec

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with an input, on which a person can act.
type Fault struct {
	Key     string `json:"key,omitempty"`   // gateway/routes/booking; in a file also listeners or node
	Field   string `json:"field,omitempty"` // resilience.timeout, backends[1]; empty: the value as a whole
	Value   string `json:"value,omitempty"` // as it was written, shortened
	Problem string `json:"problem"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`   // from 1; 0: no place is known
	Column  int    `json:"column,omitempty"` // in characters, from 1
}

// Error reads `gateway.yaml:12:7: gateway/routes/booking: backends[0] "x": no scheme`;
// the place is left out unless the input is a file.
func (f Fault) Error() string {
	var b strings.Builder
	switch {
	case f.File != "" && f.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	case f.File != "":
		fmt.Fprintf(&b, "%s: ", f.File)
	}
	if f.Key != "" {
		fmt.Fprintf(&b, "%s: ", f.Key)
	}
	switch {
	case f.Field != "" && f.Value != "":
		fmt.Fprintf(&b, "%s %q: ", f.Field, f.Value)
	case f.Field != "":
		fmt.Fprintf(&b, "%s: ", f.Field)
	case f.Value != "":
		fmt.Fprintf(&b, "%q: ", f.Value)
	}
	b.WriteString(f.Problem)
	return b.String()
}

// Faults is everything that is wrong with an input, in the order in which it
// stands there. It is never empty when it is returned as an error.
type Faults []Fault

// Error holds one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}
