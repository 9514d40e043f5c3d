package kv

import (
	"errors"
	"fmt"
	"slices"
)

// How much history is kept when Options do not say.
const (
	DefaultHistoryRevs  = 10_000
	DefaultHistoryBytes = 64 << 20
)

// ErrCompacted is what a CompactedError is: errors.Is finds it.
var ErrCompacted = errors.New("revision is no longer kept")

// ErrFuture is returned for a revision that the store has not reached.
var ErrFuture = errors.New("revision is not reached yet")

// CompactedError says that the history does not lead to the revision asked for:
// it is too old, or of another history. The caller has to read a whole View and
// go on from its revision.
type CompactedError struct {
	Asked  Rev
	Oldest Rev // the oldest revision that can be read, and watched from
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("revision %s is no longer kept, the oldest is %s", e.Asked, e.Oldest)
}

// Is makes errors.Is(err, ErrCompacted) true.
func (e *CompactedError) Is(target error) bool { return target == ErrCompacted }

// step is one commit in the history with what it replaced.
type step struct {
	commit Commit
	// before holds, for each effect, the entry that the key had; nil if none.
	before []*Entry
}

// history is the latest commits, without a gap. It is immutable: readers keep
// the one they loaded while the next is made.
type history struct {
	base  Head // the point before the first step
	steps []*step
	bytes int64 // sum of the steps' sizes
}

// extend appends a step. The result may share memory with h, of which there must
// be no second extension: only the store's one writer calls it.
func (h history) extend(s *step) history {
	h.steps = append(h.steps, s)
	h.bytes += s.size()
	return h
}

// trim drops the oldest steps that are too many by number or by size, and
// returns them. Copying the rest lets the dropped ones be collected.
func (h history) trim(revs int, bytes int64) (kept history, dropped []*step) {
	n := 0
	for len(h.steps)-n > revs || h.bytes > bytes {
		h.bytes -= h.steps[n].size()
		h.base = h.steps[n].commit.Head(h.base.EpochID)
		n++
	}
	if n == 0 {
		return h, nil
	}
	dropped = h.steps[:n:n]
	h.steps = slices.Clone(h.steps[n:])
	return h, dropped
}

// head is the point after the last step.
func (h history) head() Head { return h.headAt(len(h.steps)) }

// headAt is the point after the first n steps.
func (h history) headAt(n int) Head {
	if n == 0 {
		return h.base
	}
	return h.steps[n-1].commit.Head(h.base.EpochID)
}

// commit finds the commit that made rev, if it is kept.
func (h history) commit(rev Rev) (Commit, bool) {
	head := h.head().Rev
	if rev.Epoch != head.Epoch || rev.Rev <= h.base.Rev.Rev || rev.Rev > head.Rev {
		return Commit{}, false
	}
	return h.steps[rev.Rev-h.base.Rev.Rev-1].commit, true
}

// after returns the steps that follow rev, or a *CompactedError if the history
// does not pass through rev.
func (h history) after(rev Rev) ([]*step, error) {
	if rev.Epoch != h.base.Rev.Epoch || rev.Rev < h.base.Rev.Rev || rev.Rev > h.head().Rev.Rev {
		return nil, &CompactedError{Asked: rev, Oldest: h.base.Rev}
	}
	return h.steps[rev.Rev-h.base.Rev.Rev:], nil
}

// before is the hash of the point before the last steps of the history.
func (h history) before(steps []*step) Hash { return h.headAt(len(h.steps) - len(steps)).Hash }

// rewind undoes steps of v, which stands at the head, until rev.
func (h history) rewind(v View, rev Rev) (View, error) {
	if rev.Compare(v.Rev()) > 0 {
		return View{}, fmt.Errorf("revision %s: %w, the newest is %s", rev, ErrFuture, v.Rev())
	}
	undo, err := h.after(rev)
	if err != nil {
		return View{}, err
	}
	keys := v.begin()
	for _, s := range slices.Backward(undo) {
		for i, effect := range s.commit.Effects {
			key := []byte(effect.Entry.Key)
			if s.before[i] == nil {
				keys.Delete(key)
				continue
			}
			keys.Insert(key, s.before[i])
		}
	}
	return View{head: h.headAt(len(h.steps) - len(undo)), keys: keys.CommitOnly()}, nil
}

// newStep is c as it is about to change v. It shares no slice with the caller.
func newStep(v View, c Commit) *step {
	c.At = canonicalTime(c.At)
	c.Effects = slices.Clone(c.Effects)
	s := &step{commit: c}
	for i, effect := range c.Effects {
		if !effect.Deleted {
			c.Effects[i].Entry = c.entry(effect)
		}
		s.before = append(s.before, v.find(effect.Entry.Key))
	}
	return s
}

// stepOverhead is about what a step costs in memory beside its texts, and each
// of its effects too.
const stepOverhead = 256

// size is about the memory that a step holds on to.
func (s *step) size() int64 {
	size := stepOverhead + len(s.commit.ID) + len(s.commit.By) + len(s.commit.Message)
	for i, effect := range s.commit.Effects {
		size += stepOverhead + len(effect.Entry.Key) + len(effect.Entry.Value)
		if s.before[i] != nil {
			size += len(s.before[i].Value)
		}
	}
	return int64(size)
}

// touches reports whether a step changes a key that prefix covers.
func (s *step) touches(prefix string) bool {
	return slices.ContainsFunc(s.commit.Effects, func(effect Effect) bool {
		return Under(prefix, effect.Entry.Key)
	})
}
