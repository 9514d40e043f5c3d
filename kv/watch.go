package kv

import "context"

// EventType says what happened to a key.
type EventType int

const (
	EventPut EventType = iota
	EventDelete
)

// Event is one change of one key. Of a delete, Entry has the key, and of whom,
// when and in which revision it was deleted (ModRev).
type Event struct {
	Type  EventType
	Entry Entry
}

// Batch is everything that one revision changed under the watched prefix, in the
// order of the keys. Of ephemeral keys, which have no revisions, it is what has
// changed since the batch before, and Rev says how far the watcher is with the operators'.
type Batch struct {
	Rev    Rev
	Events []Event
}

// Watcher reads the history forward from a revision. It has no queue that could
// fill: it is a cursor, and a watcher that is too slow for the history that is
// kept is told so by a *CompactedError. It holds nothing that must be closed, and
// is for one goroutine.
type Watcher struct {
	store  *Store
	prefix string
	cursor Rev
	hash   Hash // of the history at the cursor: after a restore its revision may be another's
	owned  owned
	anew   bool // all that is there of ephemeral keys is news
}

// Watch returns a watcher of the keys that prefix covers, beginning after the
// revision since; the zero Rev means the present one. A *CompactedError says
// that the history does not lead on from since: because it is too old, or
// because it is of another history or above the head, as after a restore of an
// older state.
//
// Ephemeral keys have no revisions. A watcher that begins at a revision gets first what
// is there of them, and what is known to have gone; see Batch.
func (s *Store) Watch(prefix string, since Rev) (*Watcher, error) {
	now, anew := s.now.Load(), true
	if since.IsZero() {
		since, anew = now.view.Rev(), false
	}
	steps, err := now.history.after(since)
	if err != nil {
		return nil, err
	}
	w := &Watcher{store: s, prefix: prefix, cursor: since, hash: now.history.before(steps), anew: anew}
	if !anew {
		w.owned = now.view.own
	}
	return w, nil
}

// Follow returns the present view, and a watcher of what comes after it, of both
// planes, in the keys that prefix covers.
func (s *Store) Follow(prefix string) (View, *Watcher) {
	now := s.now.Load()
	view := now.view
	return view, &Watcher{store: s, prefix: prefix, cursor: view.Rev(), hash: view.head.Hash, owned: view.own}
}

// Next waits for the next revision that changes a watched key. After an error of
// ctx it can be called again; after a *CompactedError the caller has to start
// anew from a View; ErrClosed ends it. After a Restore a watcher goes on if it
// stands where the restored history leads through, else it gets a *CompactedError.
func (w *Watcher) Next(ctx context.Context) (Batch, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Batch{}, err
		}
		now := w.store.now.Load()
		batch, err := w.advance(now.history)
		if err != nil || len(batch.Events) > 0 {
			return batch, err
		}
		if events := w.ownedEvents(now.view.own); len(events) > 0 {
			return Batch{Rev: w.cursor, Events: events}, nil
		}
		select {
		case <-now.changed:
		case <-w.store.closed:
			return Batch{}, ErrClosed
		case <-ctx.Done():
		}
	}
}

// Rev is the revision up to which everything has been returned by Next. It moves
// on past revisions that change no watched key, so that a watcher of a quiet
// prefix can resume from it.
func (w *Watcher) Rev() Rev { return w.cursor }

// advance moves to the next step that concerns the watcher, or to the head.
func (w *Watcher) advance(h history) (Batch, error) {
	steps, err := h.after(w.cursor)
	if err != nil {
		return Batch{}, err
	}
	if h.before(steps) != w.hash {
		return Batch{}, &CompactedError{Asked: w.cursor, Oldest: h.base.Rev}
	}
	for _, s := range steps {
		w.cursor, w.hash = s.commit.Rev, s.commit.Hash
		if events := s.events(w.prefix); len(events) > 0 {
			return Batch{Rev: w.cursor, Events: events}, nil
		}
	}
	return Batch{}, nil
}

func (s *step) events(prefix string) []Event {
	var events []Event
	for _, effect := range s.commit.Effects {
		if !Under(prefix, effect.Entry.Key) {
			continue
		}
		event := Event{Entry: s.commit.entry(effect)}
		if effect.Deleted {
			event.Type = EventDelete
		}
		events = append(events, event)
	}
	return events
}
