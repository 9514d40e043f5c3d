package kv

import (
	"bytes"
	"cmp"
	"fmt"
)

// Compare is one condition on one key. An absent key has the zero Rev, version
// 0 and no value: it equals no value and is neither less nor greater than one.
type Compare struct {
	Key    Key
	Target Target
	Op     CompareOp

	// Rev, Version or Value is the right-hand side, as Target says;
	// TargetAbsent has none.
	Rev     Rev
	Version uint64
	Value   []byte
}

// Target is what a Compare looks at.
type Target int

const (
	TargetModRev Target = iota
	TargetVersion
	TargetValue
	// TargetAbsent holds with Equal if the key is absent, with NotEqual if it
	// is there.
	TargetAbsent
)

// CompareOp is how a Compare compares: the entry's side stands on the left.
type CompareOp int

const (
	Equal CompareOp = iota
	NotEqual
	Less
	Greater
)

// check refuses a compare that asks nothing.
func (c Compare) check() error {
	if _, err := ParseKey(string(c.Key)); err != nil {
		return err
	}
	if err := checkOperators(c.Key); err != nil {
		return err
	}
	if c.Target < TargetModRev || c.Target > TargetAbsent {
		return fmt.Errorf("compare on key %q: unknown target %d", c.Key, c.Target)
	}
	if c.Op < Equal || c.Op > Greater {
		return fmt.Errorf("compare on key %q: unknown operator %d", c.Key, c.Op)
	}
	if c.Target == TargetAbsent && c.Op != Equal && c.Op != NotEqual {
		return fmt.Errorf("compare on key %q: absent is either equal or not, never less or greater", c.Key)
	}
	return nil
}

// holds reports whether every compare is true of the view.
func (v View) holds(compares []Compare) bool {
	for _, compare := range compares {
		if !compare.holds(v.find(compare.Key)) {
			return false
		}
	}
	return true
}

// holds compares an entry, nil when the key is absent.
func (c Compare) holds(entry *Entry) bool {
	if c.Target == TargetAbsent {
		return (entry == nil) == (c.Op == Equal)
	}
	if entry == nil && c.Target == TargetValue {
		return c.Op == NotEqual
	}
	order := c.order(entry)
	switch c.Op {
	case Equal:
		return order == 0
	case NotEqual:
		return order != 0
	case Less:
		return order < 0
	default:
		return order > 0
	}
}

func (c Compare) order(entry *Entry) int {
	if entry == nil {
		entry = &Entry{}
	}
	switch c.Target {
	case TargetModRev:
		return entry.ModRev.Compare(c.Rev)
	case TargetVersion:
		return cmp.Compare(entry.Version, c.Version)
	default:
		return bytes.Compare(entry.Value, c.Value)
	}
}
