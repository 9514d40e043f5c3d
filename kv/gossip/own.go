package gossip

import (
	"iter"

	"grapevine/kv"
)

// own spreads the ephemeral keys of a store.
type own struct{ store *kv.Store }

// Own is the plane of the keys that nodes own: what this node owns, and what it has of
// others. Nothing of it is signed: what a node says of any owner is believed.
func Own(store *kv.Store) Plane { return own{store} }

func (o own) ID() StreamID             { return OwnStream }
func (o own) Digest() uint64           { return o.store.OwnerDigest() }
func (o own) Changed() <-chan struct{} { return o.store.OwnerChanged() }
func (o own) Made() [][]byte           { return o.store.MadeOwned() }
func (o own) Vector() []byte           { return o.store.OwnerVector() }

func (o own) Delta(vector []byte) (iter.Seq[[]byte], bool, error) { return o.store.OwnerDelta(vector) }

func (o own) Apply(changes [][]byte) ([][]byte, bool, error) { return o.store.ApplyOwned(changes) }

// Doubles are living members with this node's id that are not this Peer: former boots of
// it which nobody has found dead yet, or another process that has its identity.
func (p *Peer) Doubles() []Member { return p.members.doubles(p.o.Meta.ID, p.o.Boot) }

// Living are the living members with an id: several when more than one process has it.
func (p *Peer) Living(id NodeID) []Member { return p.members.doubles(id, "") }

func (m *members) doubles(id NodeID, boot string) (doubles []Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.ID == id && e.boot != boot && e.alive() {
			doubles = append(doubles, e.Member)
		}
	}
	return doubles
}
