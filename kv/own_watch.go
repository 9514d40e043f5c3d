package kv

import (
	"encoding/binary"
	"maps"
	"slices"
)

// ownedEvents are what a watcher has not heard of ephemeral keys. They have no revisions:
// a watcher compares what it saw last with what is there now, so that it may miss what
// came and went between, and never how it ended. One that resumes from a revision hears
// of all that is there, and of the deletes that are remembered.
func (w *Watcher) ownedEvents(now owned) []Event {
	before, anew := w.owned, w.anew
	if before.mark == now.mark && !anew {
		return nil
	}
	w.owned, w.anew = now, false
	keys, known := now.trail.since(before.mark, now.mark)
	if anew || !known {
		keys = allOf(before, now)
	}
	var events []Event
	for _, key := range keys {
		if !Under(w.prefix, key) {
			continue
		}
		old, entry := before.find(key), now.find(key)
		switch {
		case entry == nil && (old != nil || anew):
			events = append(events, Event{Type: EventDelete, Entry: now.deleted(key, old)})
		case entry != nil && entry != old:
			events = append(events, Event{Entry: *entry})
		}
	}
	return events
}

// allOf are the keys of both states, and those that are known to have changed, in order.
func allOf(before, now owned) []Key {
	keys := map[Key]bool{}
	for _, o := range [...]owned{before, now} {
		next := o.below("")
		for entry, some := next(); some; entry, some = next() {
			keys[entry.Key] = true
		}
	}
	for _, last := range [...]*change{now.trail.recent, now.trail.older} {
		for c := last; c != nil; c = c.previous {
			for _, key := range c.keys {
				keys[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// deleted is what an event tells of a key that is gone.
func (o owned) deleted(key Key, old *Entry) Entry {
	entry := Entry{Key: key, ModRev: Rev{Rev: binary.BigEndian.Uint64(o.mark[16:])}}
	if old != nil {
		entry.By = old.By
		own := *old.Own
		entry.Own = &own
	}
	return entry
}
