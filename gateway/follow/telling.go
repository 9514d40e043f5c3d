package follow

import (
	"errors"
	"fmt"
	"strings"

	"grapevine/kv"
)

// maxTold bounds what is kept of a state, or of one change, until it is whole.
const maxTold = 1 << 30

// instances are the ephemeral keys that a gateway reads. What nodes tell each other
// besides is no concern of who is none.
const instances = "gateway/instances/"

func wanted(key kv.Key) bool {
	return strings.HasPrefix(string(key), "gateway/") && (!kv.Ephemeral(key) || strings.HasPrefix(string(key), instances))
}

// errReset is an agent that can't go on from where the stream is.
var errReset = errors.New("the agent says that its history does not lead on")

// endError is an agent that ends the stream.
type endError struct{ reason string }

func (e *endError) Error() string { return "the agent ended the stream: " + e.reason }

// telling is what one stream tells, on its way into a mirror. First is the state, which
// is shown when it is whole, then come changes, each shown when its last event is there.
type telling struct {
	mirror *kv.Mirror

	began, whole bool
	rev          kv.Rev // of the state
	epochID      [16]byte
	entries      []kv.Entry
	changes      []kv.Event
	size         int // of the events whose entries and changes are not shown yet
}

// take does what an event says; after an error the stream is of no use any more. Events
// that are not known are left out, so that agents may have new ones.
func (t *telling) take(e event) error {
	switch e.name {
	case "state":
		return t.begin(e)
	case "put", "delete", "sync":
		if !t.began {
			return fmt.Errorf("the agent began with %s, not with its state", e.name)
		}
		if e.name == "sync" {
			return t.sync(e)
		}
		return t.change(e)
	case "reset":
		return errReset
	case "end":
		end, err := decode[end](e)
		if err != nil {
			return err
		}
		return &endError{end.Reason}
	}
	return nil
}

func (t *telling) begin(e event) error {
	if t.began {
		return errors.New("the agent told its state twice")
	}
	s, err := decode[state](e)
	if err != nil {
		return err
	}
	t.began = true
	t.rev, t.epochID, err = s.point()
	return err
}

func (t *telling) change(e event) error {
	c, err := decode[change](e)
	if err != nil {
		return err
	}
	what := kv.EventPut
	if e.name == "delete" {
		what = kv.EventDelete
	}
	entry, err := c.entry(what == kv.EventDelete)
	if err != nil {
		return err
	}
	if t.size += len(e.data); t.size > maxTold {
		return fmt.Errorf("the agent tells more than %d MiB at once", maxTold>>20)
	}
	switch {
	case !wanted(entry.Key):
	case t.whole:
		t.changes = append(t.changes, kv.Event{Type: what, Entry: entry})
	case what == kv.EventDelete:
		return fmt.Errorf("key %s: is deleted within a state", entry.Key)
	default:
		t.entries = append(t.entries, entry)
	}
	if !t.whole || e.id == "" {
		return nil
	}
	rev, err := parseRev(e.id)
	if err != nil {
		return err
	}
	return t.show(rev)
}

// sync ends the state; later it says how far the agent is.
func (t *telling) sync(e event) error {
	s, err := decode[synced](e)
	if err != nil {
		return err
	}
	rev, err := parseRev(s.Rev)
	if err != nil {
		return err
	}
	if t.whole {
		return t.show(rev)
	}
	if rev != t.rev {
		return fmt.Errorf("the state of revision %s ends at %s", t.rev, rev)
	}
	err = t.mirror.Replace(t.rev, t.epochID, t.entries)
	t.whole, t.entries, t.size = true, nil, 0
	return err
}

// show has the mirror show what was told up to a revision.
func (t *telling) show(rev kv.Rev) error {
	err := t.mirror.Apply(rev, t.changes)
	t.changes, t.size = nil, 0
	return err
}
