package routing

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// Conditions are what must hold beside host and path.
type Conditions struct {
	Methods []string       // compared exactly; none: any
	Clients []netip.Prefix // none: any, also an unknown one
	Headers []Condition
	Query   []Condition
}

// Condition is one on a header or a query parameter: exactly one of the fields
// after Name is set.
type Condition struct {
	Name    string
	Values  []string // one of them
	Present *bool
	Regex   *regexp.Regexp // anchored
}

// What a condition depends on and servers read in different ways.
var (
	ErrAmbiguousQuery  = errors.New("the query can be read in two ways")
	ErrAmbiguousHeader = errors.New("a header can be read in two ways")
)

// unclear is why one of the two is met.
type unclear struct {
	error
	is error
}

func (u unclear) Is(target error) bool { return target == u.is }

// NewConditions reads those of a route, nil if it has none.
func NewConditions(r *spec.Route) *Conditions {
	c := &Conditions{Headers: newConditions(r.Headers), Query: newConditions(r.Query)}
	for _, method := range r.Methods {
		c.Methods = append(c.Methods, string(method))
	}
	for _, client := range r.Clients {
		c.Clients = append(c.Clients, client.Prefix())
	}
	if c.count() == 0 {
		return nil
	}
	return c
}

// NewMatches reads conditions that stand by themselves.
func NewMatches(matches []spec.Match) []Condition { return newConditions(matches) }

func newConditions(matches []spec.Match) []Condition {
	var all []Condition
	for _, m := range matches {
		c := Condition{Name: m.Name, Values: m.Values, Present: m.Present}
		if m.Value != "" {
			c.Values = []string{m.Value}
		}
		if m.Regex != "" {
			c.Regex = m.Regex.Whole()
		}
		all = append(all, c)
	}
	return all
}

// count is how many conditions there are: each header and parameter is one, and
// so are the methods and the clients.
func (c *Conditions) count() int {
	if c == nil {
		return 0
	}
	n := len(c.Headers) + len(c.Query)
	if len(c.Methods) > 0 {
		n++
	}
	if len(c.Clients) > 0 {
		n++
	}
	return n
}

// verdict is the outcome of conditions: which kind failed first, and which of
// its list. The zero verdict is that all hold.
type verdict struct {
	failed conditionKind
	index  int
	err    error // that nothing can be decided, see ErrAmbiguousQuery
}

type conditionKind uint8

const (
	holds conditionKind = iota
	methodFailed
	clientFailed
	headerFailed
	queryFailed
)

// judge tries the conditions, the cheap ones first.
func (c *Conditions) judge(r *Request) verdict {
	if c == nil {
		return verdict{}
	}
	if !c.takesMethod(r.Method) {
		return verdict{failed: methodFailed}
	}
	return c.judgeRest(r)
}

// judgeRest is judge without the method.
func (c *Conditions) judgeRest(r *Request) verdict {
	if len(c.Clients) > 0 && !slices.ContainsFunc(c.Clients, func(p netip.Prefix) bool { return p.Contains(r.Client) }) {
		return verdict{failed: clientFailed}
	}
	for i := range c.Headers {
		switch takes, clear := c.Headers[i].takesField(r.Fields); {
		case !clear:
			return verdict{failed: headerFailed, index: i, err: unclear{
				fmt.Errorf("header %s is there more than once or in two spellings, with different outcomes", c.Headers[i].Name), ErrAmbiguousHeader,
			}}
		case !takes:
			return verdict{failed: headerFailed, index: i}
		}
	}
	return c.judgeQuery(r.Query)
}

func (c *Conditions) takesMethod(method string) bool {
	return len(c.Methods) == 0 || slices.Contains(c.Methods, method)
}

// takesField is clear when every way to read the field gives the same answer: a
// server may join its lines by ", " (RFC 9110 §5.3), take the first or the last,
// and take "_" for "-" in the name (CGI, RFC 3875 §4.1.18) or not.
func (c *Condition) takesField(fields exchange.Fields) (takes, clear bool) {
	lines, exact := 0, 0
	var value []byte
	for i := range fields {
		switch {
		case exchange.EqualName(fields[i].Name, c.Name):
			exact++
		case !exchange.SameField(fields[i].Name, c.Name):
			continue
		}
		lines++
		value = fields[i].Value
	}
	if lines == exact && lines <= 1 { // as nearly always
		return c.holdsFor(value, lines > 0), true
	}
	return c.takesLines(fields)
}

// TakesField tells whether the condition holds for the fields, and whether every
// way to read them says the same.
func (c *Condition) TakesField(fields exchange.Fields) (takes, clear bool) {
	return c.takesField(fields)
}

// Holds tells whether the condition holds for a value that is there, or is not.
func (c *Condition) Holds(value []byte, present bool) bool { return c.holdsFor(value, present) }

// takesLines is for several lines, or other spellings of the name.
func (c *Condition) takesLines(fields exchange.Fields) (takes, clear bool) {
	value, present := combined(fields, c.Name)
	takes = c.holdsFor(value, present)
	var all []byte
	for i := range fields {
		if !exchange.SameField(fields[i].Name, c.Name) {
			continue
		}
		if c.holdsFor(fields[i].Value, true) != takes {
			return false, false
		}
		if all != nil {
			all = append(all, ", "...)
		}
		all = append(all, fields[i].Value...)
	}
	return takes, c.holdsFor(all, true) == takes
}

// holdsFor judges one reading.
func (c *Condition) holdsFor(value []byte, present bool) bool {
	if c.Present != nil {
		return present == *c.Present
	}
	return present && c.takes(value)
}

func combined(fields exchange.Fields, name string) (value []byte, present bool) {
	lines := 0
	for line := range fields.Values(name) {
		if lines++; lines == 1 {
			value = line
			continue
		}
		value = append(append(value[:len(value):len(value)], ", "...), line...)
	}
	return value, lines > 0
}

// takes judges a value that is there.
func (c *Condition) takes(value []byte) bool {
	if c.Regex != nil {
		return c.Regex.Match(value)
	}
	for _, want := range c.Values {
		if string(value) == want {
			return true
		}
	}
	return false
}

// explain says in words what failed.
func (c *Conditions) explain(v verdict, r *Request) string {
	if v.err != nil {
		return v.err.Error()
	}
	switch v.failed {
	case methodFailed:
		return fmt.Sprintf("method %s is not %s", r.Method, strings.Join(c.Methods, " or "))
	case clientFailed:
		return c.explainClient(r.Client)
	case headerFailed:
		value, present := combined(r.Fields, c.Headers[v.index].Name)
		return c.Headers[v.index].explain("header", value, present)
	default:
		return c.explainQuery(v.index, r.Query)
	}
}

func (c *Conditions) explainClient(client netip.Addr) string {
	var ranges []string
	for _, p := range c.Clients {
		ranges = append(ranges, p.String())
	}
	if !client.IsValid() {
		return "client is unknown, and would have to be in " + strings.Join(ranges, " or ")
	}
	return fmt.Sprintf("client %s is not in %s", client, strings.Join(ranges, " or "))
}

func (c *Condition) explain(what string, value []byte, present bool) string {
	switch {
	case !present:
		return fmt.Sprintf("%s %s is missing", what, c.Name)
	case c.Present != nil:
		return fmt.Sprintf("%s %s is there, and must not be", what, c.Name)
	case c.Regex != nil:
		return fmt.Sprintf("%s %s is %q and does not match %s", what, c.Name, value, c.Regex)
	default:
		return fmt.Sprintf("%s %s is %q, not %q", what, c.Name, value, c.Values)
	}
}

// implies tells whether every request for which c holds meets d as well, as far
// as that can be seen without trying.
func (c *Conditions) implies(d *Conditions) bool {
	if d == nil {
		return true
	}
	if c == nil {
		c = &Conditions{}
	}
	return impliesMethods(c.Methods, d.Methods) && impliesClients(c.Clients, d.Clients) &&
		includes(c.Headers, d.Headers, foldedEqual) && includes(c.Query, d.Query, strings.Compare)
}

func impliesMethods(c, d []string) bool {
	if len(d) == 0 || len(c) == 0 {
		return len(d) == 0
	}
	return !slices.ContainsFunc(c, func(method string) bool { return !slices.Contains(d, method) })
}

func impliesClients(c, d []netip.Prefix) bool {
	if len(d) == 0 || len(c) == 0 {
		return len(d) == 0
	}
	return !slices.ContainsFunc(c, func(inner netip.Prefix) bool {
		return !slices.ContainsFunc(d, func(outer netip.Prefix) bool {
			return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
		})
	})
}

func foldedEqual(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }

func includes(c, d []Condition, compareNames func(a, b string) int) bool {
	for _, want := range d {
		if !slices.ContainsFunc(c, func(has Condition) bool { return compareNames(has.Name, want.Name) == 0 && has.same(want) }) {
			return false
		}
	}
	return true
}

func (c *Condition) same(d Condition) bool {
	switch {
	case c.Regex != nil && d.Regex != nil:
		return c.Regex.String() == d.Regex.String()
	case c.Present != nil && d.Present != nil:
		return *c.Present == *d.Present
	case d.Present != nil:
		return *d.Present // a value that is compared is there
	case c.Regex != nil || d.Regex != nil || c.Present != nil:
		return false
	default:
		return !slices.ContainsFunc(c.Values, func(v string) bool { return !slices.Contains(d.Values, v) })
	}
}
