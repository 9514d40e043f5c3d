package spec

import (
	"fmt"
	"slices"
	"strings"
)

// checks is what a check method reports to. Its fields are paths below the
// struct that is checked.
type checks struct {
	d    *decoder
	n    *tree
	path string
}

// fault says what is wrong with a field, at the place where it was written, or
// else where the value stands that lacks it.
func (c *checks) fault(field, problem string, args ...any) {
	c.d.fault(c.n.find(field), join(c.path, field), problem, args...)
}

// notice says what a person should know although it is not wrong.
func (c *checks) notice(field, problem string, args ...any) {
	n := c.n.find(field)
	c.d.notices = append(c.d.notices, c.d.note(n.at, join(c.path, field), n.written(), fmt.Sprintf(problem, args...)))
}

// given says whether a field was written, and not as null.
func (c *checks) given(field string) bool {
	n := c.n.find(field)
	return n != c.n && n.kind != null
}

// failed says whether a field already has a fault, or was probably meant by an
// unknown name, so that what follows from it need not be said as well.
func (c *checks) failed(field string) bool {
	path := join(c.path, field)
	for _, f := range c.d.faults[c.d.begun.faults:] {
		if _, below := after(f.Field, path); below {
			return true
		}
	}
	return slices.Contains(c.d.meant[c.d.begun.meant:], path)
}

// exclusive makes sure that at most one of several fields is given, and says
// how many are.
func (c *checks) exclusive(fields ...choice) (given int) {
	first := ""
	for _, f := range fields {
		if !f.given && !c.failed(f.name) {
			continue
		}
		if given++; given == 1 {
			first = f.name
			continue
		}
		c.fault(f.name, "cannot stand beside %s: give one of %s", first, names(fields))
	}
	return given
}

// choice is a field that excludes others.
type choice struct {
	name  string
	given bool
}

func names(fields []choice) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// unique makes sure that no item of a list is there twice.
func unique[T ~string](c *checks, field string, items []T) {
	seen := map[T]int{}
	for i, item := range items {
		if first, ok := seen[item]; ok && item != "" {
			c.fault(fmt.Sprintf("%s[%d]", field, i), "is the same as %s[%d]", field, first)
			continue
		}
		seen[item] = i
	}
}
