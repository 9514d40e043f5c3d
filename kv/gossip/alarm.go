package gossip

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"grapevine/kv"
)

// maxAlarms bounds the list; those beyond are counted and logged only.
const maxAlarms = 256

// forgedFor is how long a Forged alarm stays after the last of its kind. The
// others end when the node's head agrees with ours again.
const forgedFor = 10 * time.Minute

// AlarmKind says what is wrong between two nodes.
type AlarmKind int

const (
	// Forged: a head or a change came without the signature that it needs.
	Forged AlarmKind = iota + 1
	// Diverged: one revision of one epoch has two hashes.
	Diverged
	// Rivals: two epochs have one number.
	Rivals
	// EpochAhead: the other node is in a higher epoch, and this one may not follow,
	// since its own quorum answers or it is in the raft configuration.
	EpochAhead
	// LeaderBehind: the other node has a revision that this one, which leads, never
	// made.
	LeaderBehind
)

var alarmNames = map[AlarmKind]string{
	Forged:       "forged",
	Diverged:     "histories diverged",
	Rivals:       "rival epochs",
	EpochAhead:   "higher epoch elsewhere",
	LeaderBehind: "leader is behind",
}

func (k AlarmKind) String() string {
	if name, ok := alarmNames[k]; ok {
		return name
	}
	return fmt.Sprintf("alarm %d", int(k))
}

// Alarm says that another node's stream contradicts ours. Nothing has been
// replaced, and nothing is until an operator decides.
type Alarm struct {
	Kind   AlarmKind
	Node   NodeID
	Role   Role // of the node, when it was noticed first
	Stream StreamID
	// Ours and Theirs are the heads when it was noticed last.
	Ours, Theirs kv.Head
	First, Last  time.Time
	Count        int // how often it was noticed
}

// alarms keeps what is wrong now.
type alarms struct {
	log     *slog.Logger
	changed *signal
	raised  *counter

	mu   sync.Mutex // guards list
	list map[alarmKey]*Alarm
}

type alarmKey struct {
	kind   AlarmKind
	node   NodeID
	stream StreamID
}

// raise notes an alarm, and logs it if it is new. cause may be nil.
func (a *alarms) raise(kind AlarmKind, from Member, stream StreamID, ours, theirs kv.Head, cause error) {
	a.raised.add(1)
	now := time.Now()
	a.mu.Lock()
	key := alarmKey{kind, from.ID, stream}
	alarm := a.list[key]
	isNew := alarm == nil
	if isNew {
		alarm = &Alarm{Kind: kind, Node: from.ID, Role: from.Role, Stream: stream, First: now}
		if len(a.list) < maxAlarms {
			a.list[key] = alarm
		}
	}
	alarm.Ours, alarm.Theirs, alarm.Last = ours, theirs, now
	alarm.Count++
	a.mu.Unlock()
	if isNew {
		a.log.Error("alarm", "kind", kind.String(), "from", string(from.ID), "role", from.Role.String(), "stream", int(stream),
			"rev", ours.Rev.String(), "hash", fmt.Sprintf("%x", ours.Hash[:8]),
			"theirs", theirs.Rev.String(), "theirHash", fmt.Sprintf("%x", theirs.Hash[:8]), "err", cause)
		a.changed.fire()
	}
}

// settle ends the alarms of a node whose head agrees with ours.
func (a *alarms) settle(node NodeID, stream StreamID) {
	settled := a.remove(func(alarm *Alarm) bool {
		return alarm.Node == node && alarm.Stream == stream && alarm.Kind != Forged
	})
	for _, alarm := range settled {
		a.log.Info("alarm is over", "kind", alarm.Kind.String(), "from", string(node), "stream", int(stream), "count", alarm.Count)
	}
}

// expire forgets forgeries that did not come again.
func (a *alarms) expire(now time.Time) {
	a.remove(func(alarm *Alarm) bool { return alarm.Kind == Forged && now.Sub(alarm.Last) > forgedFor })
}

func (a *alarms) remove(which func(*Alarm) bool) []*Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	var removed []*Alarm
	for key, alarm := range a.list {
		if which(alarm) {
			removed = append(removed, alarm)
			delete(a.list, key)
		}
	}
	if len(removed) > 0 {
		a.changed.fire()
	}
	return removed
}

// all is the list in the order in which the alarms were noticed first.
func (a *alarms) all() []Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]Alarm, 0, len(a.list))
	for _, alarm := range a.list {
		all = append(all, *alarm)
	}
	slices.SortFunc(all, func(x, y Alarm) int {
		return cmp.Or(x.First.Compare(y.First), cmp.Compare(x.Node, y.Node), cmp.Compare(x.Kind, y.Kind))
	})
	return all
}
