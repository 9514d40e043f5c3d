package kv

import (
	"fmt"
	"slices"
	"time"
)

// Limits of a transaction.
const (
	MaxValueBytes = 256 << 10
	MaxTxnBytes   = 4 << 20
	MaxTxnOps     = 10_000

	MaxIDBytes      = 128      // as the API bounds a correlation id
	MaxAuthorBytes  = 1 << 10  // of By
	MaxMessageBytes = 16 << 10 // of Message
)

// Txn is a conditional change: if every compare holds, Then is done as a whole,
// else Else is. Operations take effect in their order, and the last one on a key
// wins; a key counts as written once.
type Txn struct {
	// ID is the request's id, empty if it has none. It travels with the commit and
	// orders nothing: Store.Committed finds by it what has been done already.
	ID      string
	Compare []Compare
	Then    []Op
	Else    []Op

	By, Message string
	At          time.Time
}

// Op is one change, made by Put, Delete or DeleteRange.
type Op struct {
	Kind   OpKind
	Key    Key    // of a put or a delete
	Prefix string // of a range delete, with the meaning of Under
	Value  []byte // of a put
}

// OpKind says which change an Op is.
type OpKind int

const (
	OpPut OpKind = iota
	OpDelete
	OpDeleteRange
)

// Put sets a key. It counts as a change even when the value is the same.
func Put(key Key, value []byte) Op { return Op{Kind: OpPut, Key: key, Value: value} }

// Delete removes a key. Removing an absent one changes nothing.
func Delete(key Key) Op { return Op{Kind: OpDelete, Key: key} }

// DeleteRange removes every key that Under says prefix covers. An empty prefix
// is refused.
func DeleteRange(prefix string) Op { return Op{Kind: OpDeleteRange, Prefix: prefix} }

// Result tells what a transaction did.
type Result struct {
	// Succeeded says that the compares held and Then was done. Without it Else
	// was done, which may have changed keys too.
	Succeeded bool
	// Rev is the new revision, or the current one when nothing changed.
	Rev Rev
	// Deleted counts the keys that were there before and are gone now.
	Deleted int
	// Changed lists the keys that were written or deleted, in order.
	Changed []Key
}

// LimitError says that a transaction, or a value in it, is too large.
type LimitError struct {
	Key  Key // of the value that is too large; empty for the whole transaction
	What string
	Got  int
	Max  int
}

func (e *LimitError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("transaction: %s is %d, at most %d is allowed", e.What, e.Got, e.Max)
	}
	return fmt.Sprintf("key %q: %s is %d, at most %d is allowed", e.Key, e.What, e.Got, e.Max)
}

// checkTexts bounds what a transaction, or a commit, says of itself.
func checkTexts(id, by, message string) error {
	for _, text := range [...]LimitError{
		{What: "the id's size in bytes", Got: len(id), Max: MaxIDBytes},
		{What: "the author's size in bytes", Got: len(by), Max: MaxAuthorBytes},
		{What: "the message's size in bytes", Got: len(message), Max: MaxMessageBytes},
	} {
		if text.Got > text.Max {
			return &text
		}
	}
	return nil
}

// check refuses what no view can resolve.
func (t Txn) check() error {
	if err := checkTexts(t.ID, t.By, t.Message); err != nil {
		return err
	}
	if n := len(t.Compare) + len(t.Then) + len(t.Else); n > MaxTxnOps {
		return &LimitError{What: "the number of compares and operations", Got: n, Max: MaxTxnOps}
	}
	size := 0
	for _, compare := range t.Compare {
		if err := compare.check(); err != nil {
			return err
		}
		size += len(compare.Key) + len(compare.Value)
	}
	for _, op := range slices.Concat(t.Then, t.Else) {
		if err := op.check(); err != nil {
			return err
		}
		size += len(op.Key) + len(op.Prefix) + len(op.Value)
	}
	if size > MaxTxnBytes {
		return &LimitError{What: "the size in bytes", Got: size, Max: MaxTxnBytes}
	}
	return nil
}

func (o Op) check() error {
	switch o.Kind {
	case OpDeleteRange:
		return checkRange(o.Prefix)
	case OpPut, OpDelete:
		if err := checkValue(o.Key, o.Value); err != nil {
			return err
		}
		if _, err := ParseKey(string(o.Key)); err != nil {
			return err
		}
		return checkOperators(o.Key)
	}
	return fmt.Errorf("operation on key %q: unknown kind %d", o.Key, o.Kind)
}

func checkValue(key Key, value []byte) error {
	if len(value) > MaxValueBytes {
		return &LimitError{Key: key, What: "the value's size in bytes", Got: len(value), Max: MaxValueBytes}
	}
	return nil
}
