package kv

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// Mirror shows a state that is kept elsewhere, as far as somebody was told of it: it is
// for who follows a store and is no node. It has no history, merges nothing and writes
// nothing. Its views are as a Store's, but that the hash of their head is the mirror's
// own. All methods may be called by any number of goroutines.
type Mirror struct {
	now atomic.Pointer[mirrored]

	mu      sync.Mutex // guards what is below, and lets one at a time replace now
	origin  [16]byte   // of this mirror, so that its views are no other's
	changes uint64
}

type mirrored struct {
	view    View
	changed chan struct{}
}

// NewMirror makes a mirror that shows nothing, at the zero revision.
func NewMirror() *Mirror {
	m := &Mirror{}
	rand.Read(m.origin[:]) // never fails: it would end the process
	m.now.Store(&mirrored{changed: make(chan struct{})})
	return m
}

// View is the newest state.
func (m *Mirror) View() View { return m.now.Load().view }

// Changed returns a channel that is closed when the view is replaced. To miss nothing,
// take the channel first and then the View.
func (m *Mirror) Changed() <-chan struct{} { return m.now.Load().changed }

// Replace shows the entries, which are all that there is at a revision, and nothing else;
// those that are as before stay the same. The revision may be any. After an error, a
// *KeyError, *LimitError or one about the owner, the view is what it was.
func (m *Mirror) Replace(rev Rev, epochID [16]byte, entries []Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.View()
	there := make(map[Key]bool, len(entries))
	events := make([]Event, 0, len(entries))
	for _, entry := range entries {
		there[entry.Key] = true
		events = append(events, Event{Entry: entry})
	}
	for entry := range before.Under("") {
		if !there[entry.Key] {
			events = append(events, Event{Type: EventDelete, Entry: entry})
		}
	}
	return m.change(before, rev, epochID, events)
}

// Apply shows what changed on the way to a revision, which may be the one before. Errors
// as for Replace, and ErrGap when rev is before the present one.
func (m *Mirror) Apply(rev Rev, events []Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.View()
	if rev.Compare(before.Rev()) < 0 {
		return fmt.Errorf("revision %s after %s: %w", rev, before.Rev(), ErrGap)
	}
	return m.change(before, rev, before.head.EpochID, events)
}

// change is for holders of mu.
func (m *Mirror) change(before View, rev Rev, epochID [16]byte, events []Event) error {
	for _, e := range events {
		if err := checkMirrored(e); err != nil {
			return err
		}
	}
	operators, own := before.begin(), iradix.New[*Entry]().Txn()
	if before.own.keys != nil {
		own = before.own.keys.Txn()
	}
	var moved, movedOwn []Key
	for _, e := range events {
		if Ephemeral(e.Entry.Key) {
			movedOwn = m.set(own, e, movedOwn)
		} else {
			moved = m.set(operators, e, moved)
		}
	}
	next := before
	if rev != before.head.Rev || epochID != before.head.EpochID || len(moved) > 0 {
		next.head = Head{Rev: rev, EpochID: epochID, Hash: m.nextMark()}
		next.keys = operators.CommitOnly()
		next.trail = before.trail.extend(before.head.Hash, sortedKeys(moved))
	}
	if len(movedOwn) > 0 {
		next.own = owned{keys: own.CommitOnly(), trail: before.own.trail.extend(before.own.mark, sortedKeys(movedOwn)), mark: m.nextMark()}
	}
	if next.Is(before) {
		return nil
	}
	now := m.now.Load()
	m.now.Store(&mirrored{view: next, changed: make(chan struct{})})
	close(now.changed)
	return nil
}

// set does what an event says, unless that is so already, and adds the key to those that
// moved.
func (m *Mirror) set(txn *iradix.Txn[*Entry], e Event, moved []Key) []Key {
	key := []byte(e.Entry.Key)
	shown, _ := txn.Get(key)
	switch {
	case e.Type == EventDelete && shown == nil, e.Type == EventPut && sameMirrored(shown, e.Entry):
		return moved
	case e.Type == EventDelete:
		txn.Delete(key)
	default:
		entry := e.Entry
		if entry.Own != nil { // their revisions are those of a store that may have begun to count anew
			entry.ModRev = Rev{Rev: m.changes + 1}
			entry.CreateRev = entry.ModRev
		}
		txn.Insert(key, &entry)
	}
	return append(moved, e.Entry.Key)
}

func sameMirrored(shown *Entry, next Entry) bool {
	if shown == nil || !bytes.Equal(shown.Value, next.Value) {
		return false
	}
	if next.Own != nil {
		return *shown.Own == *next.Own
	}
	return shown.ModRev == next.ModRev
}

// checkMirrored refuses what no store shows.
func checkMirrored(e Event) error {
	entry := e.Entry
	if _, err := ParseKey(string(entry.Key)); err != nil {
		return err
	}
	switch {
	case e.Type == EventDelete:
		return nil
	case Ephemeral(entry.Key) && entry.Own == nil:
		return &KeyError{Key: string(entry.Key), Problem: "lives as long as the node that owns it, and has no owner"}
	case entry.Own != nil:
		if err := entry.Own.Owner.check(); err != nil {
			return err
		}
		return checkOwned(entry.Key, entry.Value)
	case len(entry.Value) > MaxValueBytes:
		return &LimitError{Key: entry.Key, What: "the value's size in bytes", Got: len(entry.Value), Max: MaxValueBytes}
	}
	return nil
}

// nextMark names the state that comes next.
func (m *Mirror) nextMark() (mark Hash) {
	m.changes++
	copy(mark[:], m.origin[:])
	binary.BigEndian.PutUint64(mark[16:], m.changes)
	return mark
}

func sortedKeys(keys []Key) []Key {
	slices.Sort(keys)
	return slices.Compact(keys)
}
