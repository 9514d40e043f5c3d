package follow

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"grapevine/kv"
)

// The local values of a store in which a state is kept: where it is of, and each entry.
const (
	keptState = "follow/state"
	keptKeys  = "follow/keys/"
)

// keepEvery is how long after a write to the store the next one waits, so that a burst of
// changes makes a few.
const keepEvery = time.Second

// load shows what the store has. It has a whole state or none.
func (s *Source) load() error {
	s.kept = s.View()
	if s.store == nil {
		return nil
	}
	data, there := s.store.Local(keptState)
	if !there {
		return nil
	}
	var at state
	if err := json.Unmarshal(data, &at); err != nil {
		return fmt.Errorf("local value %s: %w", keptState, err)
	}
	rev, epochID, err := at.point()
	if err != nil {
		return fmt.Errorf("local value %s: %w", keptState, err)
	}
	var entries []kv.Entry
	for name, data := range s.store.LocalUnder(keptKeys) {
		var c change
		err := json.Unmarshal(data, &c)
		if err == nil {
			var entry kv.Entry
			entry, err = c.entry(false)
			entries = append(entries, entry)
		}
		if err != nil {
			return fmt.Errorf("local value %s: %w", name, err)
		}
	}
	for _, entry := range entries {
		if entry.Own != nil {
			entry.Own.Orphaned = true // nobody has vouched for it since
		}
	}
	err = s.mirror.Replace(rev, epochID, entries)
	s.kept = s.View()
	return err
}

// keep writes to the store what changes, until ctx ends, and then once more. What can't be
// written is served none the less, and tried again.
func (s *Source) keep(ctx context.Context) {
	failing := false
	for {
		changed := s.Changed()
		err := s.keepNow()
		if err != nil && !failing {
			s.logger.Error("what the agent says is not kept: a restart would serve what is older, until it is heard", "err", err)
		}
		if failing = err != nil; failing {
			changed = nil
		}
		select {
		case <-changed:
		case <-retry(failing):
		case <-ctx.Done():
			if err := s.keepNow(); err != nil {
				s.logger.Error("the last changes are not kept", "err", err)
			}
			return
		}
		wait(ctx, keepEvery)
	}
}

// retry fires at once when something failed: the wait follows.
func retry(failing bool) <-chan struct{} {
	if !failing {
		return nil
	}
	now := make(chan struct{})
	close(now)
	return now
}

// keepNow writes the difference between what the store has and what is shown.
func (s *Source) keepNow() error {
	now := s.View()
	if now.Is(s.kept) {
		return nil
	}
	values := map[string][]byte{}
	for _, key := range changedSince(now, s.kept) {
		if entry, there := now.Get(key); there {
			values[keptKeys+string(key)] = encode(newChange(entry))
		} else {
			values[keptKeys+string(key)] = nil
		}
	}
	head := now.Head()
	values[keptState] = encode(state{Rev: head.Rev.String(), EpochID: hex.EncodeToString(head.EpochID[:])})
	if err := s.store.SetLocals(values); err != nil {
		return err
	}
	s.kept = now
	return nil
}

// changedSince are the keys that differ, all if that can't be told.
func changedSince(now, before kv.View) []kv.Key {
	keys, known := now.ChangedSince(before)
	if known {
		return keys
	}
	for _, view := range [...]kv.View{before, now} {
		for entry := range view.Under("") {
			keys = append(keys, entry.Key)
		}
	}
	return keys
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil { // these documents always marshal
		panic(err)
	}
	return data
}
