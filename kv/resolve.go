package kv

import (
	"maps"
	"slices"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// Resolve decides a transaction against the view: it evaluates the compares and
// works out what changes. It reads neither clock nor chance, so that every node
// which resolves the same transactions in the same order gets the same commits.
//
// When nothing changes, the commit's Rev is zero and it must not be merged. The
// error is a *KeyError, a *LimitError, or says which compare makes no sense.
func (v View) Resolve(t Txn) (Commit, Result, error) {
	if err := t.check(); err != nil {
		return Commit{}, Result{}, err
	}
	succeeded, ops := true, t.Then
	if !v.holds(t.Compare) {
		succeeded, ops = false, t.Else
	}
	commit := Commit{
		ID: t.ID, Rev: v.head.Rev.Next(), Prev: v.head.Hash,
		By: t.By, Message: t.Message, At: canonicalTime(t.At), Else: !succeeded,
	}
	commit.Effects = v.effects(ops, commit)
	if len(commit.Effects) == 0 {
		return Commit{}, Result{Succeeded: succeeded, Rev: v.head.Rev}, nil
	}
	commit.Hash = commit.hash()
	return commit, commit.result(), nil
}

func (c Commit) result() Result {
	result := Result{Succeeded: !c.Else, Rev: c.Rev}
	for _, effect := range c.Effects {
		result.Changed = append(result.Changed, effect.Entry.Key)
		if effect.Deleted {
			result.Deleted++
		}
	}
	return result
}

// effects runs the operations on a private copy and reports, in the order of
// the keys, how each touched one differs in the end.
func (v View) effects(ops []Op, c Commit) []Effect {
	work := workspace{keys: v.begin(), commit: c, touched: map[Key]bool{}}
	for _, op := range ops {
		work.do(op)
	}
	var effects []Effect
	for _, key := range slices.Sorted(maps.Keys(work.touched)) {
		entry, there := work.keys.Get([]byte(key))
		switch {
		case there:
			effects = append(effects, Effect{Entry: *entry})
		case v.find(key) != nil:
			effects = append(effects, Effect{Entry: Entry{Key: key}, Deleted: true})
		}
	}
	return effects
}

// workspace is the state between two operations of one transaction.
type workspace struct {
	keys    *iradix.Txn[*Entry]
	commit  Commit
	touched map[Key]bool
}

func (w *workspace) do(op Op) {
	switch op.Kind {
	case OpPut:
		w.put(op.Key, op.Value)
	case OpDelete:
		w.delete(op.Key)
	case OpDeleteRange:
		for _, key := range w.keysUnder(op.Prefix) {
			w.delete(key)
		}
	}
}

func (w *workspace) put(key Key, value []byte) {
	entry := w.commit.entry(Effect{Entry: Entry{Key: key, Value: append([]byte{}, value...)}})
	entry.CreateRev, entry.Version = w.commit.Rev, 1
	if old, there := w.keys.Get([]byte(key)); there {
		entry.CreateRev, entry.Version = old.CreateRev, old.Version
		if old.ModRev != w.commit.Rev { // the second write of one transaction is not another version
			entry.Version++
		}
	}
	w.keys.Insert([]byte(key), &entry)
	w.touched[key] = true
}

func (w *workspace) delete(key Key) {
	if _, there := w.keys.Delete([]byte(key)); there {
		w.touched[key] = true
	}
}

// keysUnder collects before anything is deleted: the tree of a running
// transaction must not change under its iterator.
func (w *workspace) keysUnder(prefix string) []Key {
	var keys []Key
	for entry := range entriesUnder(w.keys.Root(), prefix) {
		keys = append(keys, entry.Key)
	}
	return keys
}
