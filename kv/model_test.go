package kv

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is a store made of maps: obviously right and slow.
type model struct {
	states []map[Key]Entry // by revision
	oldest int             // the first revision that is kept
}

func (m *model) now() map[Key]Entry { return m.states[len(m.states)-1] }

func (m *model) rev() Rev { return Rev{Epoch: 1, Rev: uint64(len(m.states) - 1)} }

// do runs a transaction and says whether the compares held and a revision was
// made.
func (m *model) do(t Txn) (succeeded, changed bool) {
	succeeded = true
	for _, c := range t.Compare {
		succeeded = succeeded && m.holds(c)
	}
	ops := t.Then
	if !succeeded {
		ops = t.Else
	}
	next, rev := maps.Clone(m.now()), m.rev().Next()
	written := map[Key]bool{}
	for _, op := range ops {
		switch op.Kind {
		case OpPut:
			entry := Entry{Key: op.Key, Value: append([]byte{}, op.Value...), CreateRev: rev, ModRev: rev, Version: 1, By: t.By, Message: t.Message}
			if old, there := next[op.Key]; there {
				entry.CreateRev, entry.Version = old.CreateRev, old.Version
				if old.ModRev != rev {
					entry.Version++
				}
			}
			next[op.Key], written[op.Key] = entry, true
		default:
			maps.DeleteFunc(next, func(key Key, _ Entry) bool {
				gone := op.Kind == OpDelete && key == op.Key || op.Kind == OpDeleteRange && covers(op.Prefix, key)
				if gone {
					written[key] = true
				}
				return gone
			})
		}
	}
	for key := range written {
		_, before := m.now()[key]
		_, after := next[key]
		changed = changed || before || after
	}
	if changed {
		m.states = append(m.states, next)
	}
	return succeeded, changed
}

func covers(prefix string, key Key) bool {
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		return strings.HasPrefix(string(key), prefix)
	}
	return string(key) == prefix || strings.HasPrefix(string(key), prefix+"/")
}

func (m *model) holds(c Compare) bool {
	entry, there := m.now()[c.Key]
	order := 0
	switch c.Target {
	case TargetAbsent:
		return there != (c.Op == Equal)
	case TargetModRev:
		order = entry.ModRev.Compare(c.Rev)
	case TargetVersion:
		order = int(entry.Version) - int(c.Version)
	case TargetValue:
		if !there {
			return c.Op == NotEqual
		}
		order = bytes.Compare(entry.Value, c.Value)
	}
	return map[CompareOp]bool{Equal: order == 0, NotEqual: order != 0, Less: order < 0, Greater: order > 0}[c.Op]
}

var (
	someKey    = rapid.SampledFrom([]Key{"a", "a/b", "a/bc", "a/b/c", "a-b", "b", "gateway/routes/app", "gateway/routes/app-dev"})
	somePrefix = rapid.SampledFrom([]string{"a", "a/", "a/b", "b", "gateway/routes/app", "gateway", "none"})
	someValue  = rapid.SliceOfN(rapid.Byte(), 0, 4)
	someOp     = rapid.OneOf(
		rapid.Custom(func(t *rapid.T) Op { return Put(someKey.Draw(t, "key"), someValue.Draw(t, "value")) }),
		rapid.Custom(func(t *rapid.T) Op { return Delete(someKey.Draw(t, "key")) }),
		rapid.Custom(func(t *rapid.T) Op { return DeleteRange(somePrefix.Draw(t, "prefix")) }),
	)
	someCompare = rapid.Custom(func(t *rapid.T) Compare {
		c := Compare{
			Key: someKey.Draw(t, "key"), Target: rapid.SampledFrom([]Target{TargetModRev, TargetVersion, TargetValue, TargetAbsent}).Draw(t, "target"),
			Op:  rapid.SampledFrom([]CompareOp{Equal, NotEqual, Less, Greater}).Draw(t, "op"),
			Rev: Rev{Epoch: 1, Rev: rapid.Uint64Range(0, 20).Draw(t, "rev")}, Version: rapid.Uint64Range(0, 3).Draw(t, "version"), Value: someValue.Draw(t, "value"),
		}
		if c.Target == TargetAbsent {
			c.Op %= 2
		}
		return c
	})
	someTxn = rapid.Custom(func(t *rapid.T) Txn {
		return Txn{
			Compare: rapid.SliceOfN(someCompare, 0, 2).Draw(t, "compare"),
			Then:    rapid.SliceOfN(someOp, 0, 4).Draw(t, "then"), Else: rapid.SliceOfN(someOp, 0, 2).Draw(t, "else"),
			By: rapid.SampledFrom([]string{"", "uid:0"}).Draw(t, "by"), Message: rapid.SampledFrom([]string{"", "why"}).Draw(t, "message"),
		}
	})
)
