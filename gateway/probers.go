package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"grapevine/gateway/health"
	"grapevine/kv"
)

// What few nodes find out about destinations for all of them is told by ephemeral
// keys, gateway/health/{clusterId}/{question}/{nodeId}. The question is the hash of
// the check with the address, so that nobody takes the answer to another one for
// it; nodes whose clusters differ for a moment have nothing in common then.

// Peers are the other nodes, as far as the gateway has to do with them. Its methods
// may be called by any number of goroutines, and don't wait for anybody.
type Peers interface {
	// Gateways are the ids of this node and of those that live and run a gateway, and
	// a channel that is closed when they change.
	Gateways() (self string, living []string, changed <-chan struct{})
	// Put and Withdraw change keys that live as long as this node, see kv.Own.
	Put(key kv.Key, value []byte) error
	Withdraw(keys ...kv.Key) error
}

// healthPrefix is where nodes tell what checks find.
const healthPrefix = "gateway/health/"

// said is the value of such a key. Up and Count are what others act on; the rest is
// for people.
type said struct {
	Address string `json:"address"`
	State   string `json:"state"` // healthy or unhealthy
	Why     string `json:"why,omitempty"`
	Good    uint64 `json:"good"` // answers of the address
	Bad     uint64 `json:"bad"`
	Count   uint64 `json:"count"` // how often it was said, since the node has started
}

// others brings what the peers say to the monitor. It is for one goroutine.
type others struct {
	peers  Peers
	source Source

	self  string
	heard map[kv.Key]*hearing
	said  map[health.Subject][]health.Opinion
}

// hearing is a key that was read. Opinion is nil if it says nothing.
type hearing struct {
	mark    kv.Ownership
	subject health.Subject
	opinion *health.Opinion
	seen    bool
}

// newOthers is nil without peers.
func newOthers(peers Peers, source Source) health.Peers {
	if peers == nil {
		return nil
	}
	return &others{peers: peers, source: source, heard: map[kv.Key]*hearing{}}
}

// Look: see health.Peers. What has not changed is not read again.
func (o *others) Look() health.Outlook {
	look := health.Outlook{SaidChanged: o.source.Changed()}
	look.Self, look.Nodes, look.NodesChanged = o.peers.Gateways()
	first := o.said == nil
	changed := first || look.Self != o.self
	o.self = look.Self
	for entry := range o.source.View().Under(healthPrefix) {
		if entry.Own == nil {
			continue
		}
		if first && string(entry.Own.Owner) == o.self { // from before a restart
			_ = o.peers.Withdraw(entry.Key)
		}
		h := o.heard[entry.Key]
		if h == nil || h.mark != *entry.Own {
			h = newHearing(entry)
			o.heard[entry.Key] = h
			changed = true
		}
		h.seen = true
	}
	for key, h := range o.heard {
		if !h.seen {
			delete(o.heard, key)
			changed = true
		}
		h.seen = false
	}
	if changed {
		o.gather()
	}
	look.Said = o.said
	return look
}

// gather puts together what others say.
func (o *others) gather() {
	o.said = map[health.Subject][]health.Opinion{}
	for _, h := range o.heard {
		if h.opinion != nil && h.opinion.Node != o.self {
			o.said[h.subject] = append(o.said[h.subject], *h.opinion)
		}
	}
}

// newHearing reads a key. A node speaks for itself alone, and one that can't be
// reached says nothing any more.
func newHearing(entry kv.Entry) *hearing {
	h := &hearing{mark: *entry.Own}
	subject, node, ok := splitHealthKey(entry.Key)
	if !ok || node != string(entry.Own.Owner) || entry.Own.Orphaned {
		return h
	}
	if s, err := readSaid(entry.Value); err == nil {
		h.subject = subject
		h.opinion = &health.Opinion{Node: node, Up: s.State == health.Healthy.String(), Count: s.Count}
	}
	return h
}

func readSaid(value []byte) (s said, err error) {
	d := json.NewDecoder(bytes.NewReader(value))
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	if s.State != health.Healthy.String() && s.State != health.Unhealthy.String() {
		return s, fmt.Errorf("state %q is neither healthy nor unhealthy", s.State)
	}
	return s, nil
}

func splitHealthKey(key kv.Key) (subject health.Subject, node string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(string(key), healthPrefix), "/")
	if len(parts) != 3 {
		return subject, "", false
	}
	return health.Subject{Cluster: parts[0], Question: parts[1]}, parts[2], true
}

func (o *others) key(s health.Subject) kv.Key {
	return kv.Key(healthPrefix + s.Cluster + "/" + s.Question + "/" + o.self)
}

// maxWhy bounds what others are told of a bad answer.
const maxWhy = 256

// Tell: see health.Peers.
func (o *others) Tell(f health.Finding) error {
	s := said{Address: f.Address, State: health.Healthy.String(), Good: f.Good, Bad: f.Bad, Count: f.Count}
	if !f.Up {
		s.State, s.Why = health.Unhealthy.String(), f.Why[:min(len(f.Why), maxWhy)]
	}
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return o.peers.Put(o.key(f.Subject), value)
}

// Withdraw: see health.Peers. It fails only for a key that nobody may own.
func (o *others) Withdraw(s health.Subject) { _ = o.peers.Withdraw(o.key(s)) }
