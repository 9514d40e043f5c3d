package kv

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What is known of owners is kept among the local values, so that it is there after a
// power cut before any other node is:
//
//	own/OWNER       the mark, and whether it is only a floor
//	own/OWNER/KEY   a claim
//	own.incarnation the last incarnation of this node, in decimal
//
// It is written behind, all of one moment in one transaction: what a crash loses is
// fetched again, or announced again.
const (
	ownPrefix = "own"
	selfName  = "own.incarnation"
)

// ownerRecordVersion is that of both kinds of records.
const ownerRecordVersion = 1

func ownerName(owner OwnerID) string          { return ownPrefix + "/" + string(owner) }
func claimName(owner OwnerID, key Key) string { return ownerName(owner) + "/" + string(key) }

func (s *Store) storedIncarnation() uint64 {
	text, _ := s.Local(selfName)
	n, _ := strconv.ParseUint(string(text), 10, 64) // what is no number was not written here
	return n
}

// soil notes what is to be written. Holders of mu call it.
func (p *plane) soil(owner OwnerID, keys []Key) {
	p.dirty[ownerName(owner)] = true
	for _, key := range keys {
		p.dirty[claimName(owner, key)] = true
	}
}

// KeepOwned writes what has changed of the owners since it was called last. What could not be
// written is tried again the next time. Errors as for SetLocal.
func (s *Store) KeepOwned() error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	p := s.plane
	p.mu.Lock()
	values := make(map[string][]byte, len(p.dirty))
	for name := range p.dirty {
		values[name] = p.record(name)
	}
	dirty := p.dirty
	p.dirty = map[string]bool{}
	p.mu.Unlock()
	if len(values) == 0 {
		return nil
	}
	err := s.SetLocals(values)
	if err != nil {
		p.mu.Lock()
		maps.Copy(p.dirty, dirty)
		p.mu.Unlock()
	}
	return err
}

// record is what a name is to hold, nil for nothing.
func (p *plane) record(name string) []byte {
	owner, key := splitName(name)
	l := p.owners[owner]
	if l == nil {
		return nil
	}
	e := encoder{buf: []byte{ownerRecordVersion}}
	if key == "" {
		e.u64(l.mark.Incarnation)
		e.u64(l.mark.Seq)
		e.u64(l.held)
		e.flag(l.purged)
		return e.buf
	}
	c := l.live[key]
	if c == nil {
		return nil
	}
	e.u64(c.mark.Seq)
	e.flag(c.draining)
	e.bytes(c.value)
	return e.buf
}

func splitName(name string) (OwnerID, Key) {
	owner, key, _ := strings.Cut(strings.TrimPrefix(name, ownPrefix+"/"), "/")
	return OwnerID(owner), Key(key)
}

// load reads what was kept. All owners are orphaned until somebody says otherwise.
func (p *plane) load(s *Store) error {
	claims := map[OwnerID][]*claim{}
	for name, value := range s.LocalUnder(ownPrefix + "/") {
		owner, key := splitName(name)
		d := decoder{rest: value}
		if version := d.take(1)[0]; version != ownerRecordVersion && d.problem == "" {
			d.fail("is of a newer version than this program knows")
		}
		if key == "" {
			l := newOwnerLog(owner)
			l.mark, l.held, l.purged, l.state = OwnerMark{d.u64(), d.u64()}, d.u64(), d.flag(), OwnerOrphaned
			l.base = l.mark.Seq
			p.owners[owner] = l
			if l.purged {
				p.floors = append(p.floors, owner)
			}
		} else {
			c := &claim{owner: owner, key: key, mark: OwnerMark{Seq: d.u64()}, draining: d.flag(), value: d.bytes()}
			claims[owner] = append(claims[owner], c)
		}
		if problem := d.end(); problem != "" {
			return corrupt(problem, "the record of local name %q", name)
		}
	}
	var shown []Key
	for owner, kept := range claims {
		l := p.owners[owner]
		if l == nil {
			return corrupt("has keys and no mark", "the owner %q", owner)
		}
		slices.SortFunc(kept, func(a, b *claim) int { return bytes.Compare(seqName(a), seqName(b)) })
		for _, c := range kept {
			c.mark.Incarnation = l.mark.Incarnation
			l.claims, l.live[c.key] = append(l.claims, c), c
			l.bytes += c.size()
			shown = append(shown, c.key)
		}
	}
	for _, l := range p.owners {
		p.sum ^= l.digest()
		p.bytes += l.bytes
		p.hold(l, slices.Collect(maps.Keys(l.live)))
	}
	p.expose(shown)
	return nil
}

func seqName(c *claim) []byte {
	var e encoder
	e.u64(c.mark.Seq)
	return e.buf
}
