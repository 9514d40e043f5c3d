package kv

import (
	"fmt"
	"slices"
)

// ownerVersion is that of changes and vectors on the wire.
const ownerVersion = 1

// The flags of an operation.
const (
	opDraining = 1 << iota
	opDeleted
)

// AppendOwnerChange appends the wire form of a change:
//
//	u8 version, string owner, u64 incarnation, u64 from, u64 seq, u64 held, u64 after, flag more,
//	u32 number of operations, each: u64 seq, string key, u8 flags, bytes value
func AppendOwnerChange(buf []byte, c OwnerChange) []byte {
	e := encoder{buf: append(buf, ownerVersion)}
	e.string(string(c.Owner))
	for _, n := range [...]uint64{c.Incarnation, c.From, c.Seq, c.Held, c.After} {
		e.u64(n)
	}
	e.flag(c.More)
	e.u32(uint32(len(c.Ops)))
	for _, op := range c.Ops {
		e.ownerOp(op)
	}
	return e.buf
}

func (e *encoder) ownerOp(op OwnerOp) {
	e.u64(op.Seq)
	e.string(string(op.Key))
	var flags byte
	if op.Draining {
		flags |= opDraining
	}
	if op.Deleted {
		flags |= opDeleted
	}
	e.raw([]byte{flags})
	e.bytes(op.Value)
}

// opBytes is the least that an operation takes.
const opBytes = 8 + 4 + 1 + 4

func (d *decoder) ownerOp() OwnerOp {
	op := OwnerOp{Seq: d.u64(), Key: Key(d.string())}
	flags := d.take(1)[0]
	if flags > opDraining|opDeleted || flags == opDraining|opDeleted {
		d.fail("has an operation of an unknown kind")
	}
	op.Draining, op.Deleted, op.Value = flags&opDraining > 0, flags&opDeleted > 0, d.bytes()
	if op.Deleted && len(op.Value) > 0 {
		d.fail("has a delete with a value")
	}
	return op
}

// DecodeOwnerChange reads a change and checks that an owner may have made it.
func DecodeOwnerChange(b []byte) (OwnerChange, error) {
	d := decoder{rest: b}
	if version := d.take(1)[0]; version != ownerVersion && d.problem == "" {
		return OwnerChange{}, fmt.Errorf("change of an owner has version %d, here is %d", version, ownerVersion)
	}
	c := OwnerChange{Owner: OwnerID(d.string()), Incarnation: d.u64(), From: d.u64(), Seq: d.u64(), Held: d.u64(), After: d.u64(), More: d.flag()}
	n := d.count(opBytes)
	c.Ops = make([]OwnerOp, 0, n)
	for range n {
		c.Ops = append(c.Ops, d.ownerOp())
	}
	if problem := d.end(); problem != "" {
		return OwnerChange{}, fmt.Errorf("change of an owner %s", problem)
	}
	return c, c.check()
}

// parts divides a change so that none has more than about max bytes of operations.
func (c OwnerChange) parts(max int) []OwnerChange {
	var parts []OwnerChange
	for ops := c.Ops; ; {
		n, size := 0, 0
		for n < len(ops) && (n == 0 || size+len(ops[n].Key)+len(ops[n].Value)+opBytes <= max) {
			size += len(ops[n].Key) + len(ops[n].Value) + opBytes
			n++
		}
		part := c
		part.Ops, ops = ops[:n:n], ops[n:]
		part.More = len(ops) > 0
		if len(parts) > 0 {
			before := parts[len(parts)-1].Ops
			part.After = before[len(before)-1].Seq
		}
		if parts = append(parts, part); !part.More {
			return parts
		}
	}
}

// vectorEntry is how far one owner is. Floor says that nothing but the mark is left.
type vectorEntry struct {
	mark  OwnerMark
	floor bool
}

// encodeVector writes u8 version, u32 number of owners, each: string owner, u64 incarnation,
// u64 seq, flag floor; in the order of the owners.
func encodeVector(vector map[OwnerID]vectorEntry) []byte {
	owners := make([]OwnerID, 0, len(vector))
	for owner := range vector {
		owners = append(owners, owner)
	}
	slices.Sort(owners)
	e := encoder{buf: []byte{ownerVersion}}
	e.u32(uint32(len(owners)))
	for _, owner := range owners {
		e.string(string(owner))
		e.u64(vector[owner].mark.Incarnation)
		e.u64(vector[owner].mark.Seq)
		e.flag(vector[owner].floor)
	}
	return e.buf
}

func decodeVector(b []byte) (map[OwnerID]vectorEntry, error) {
	const least = 4 + 1 + 8 + 8 + 1
	d := decoder{rest: b}
	if version := d.take(1)[0]; version != ownerVersion && d.problem == "" {
		return nil, fmt.Errorf("vector has version %d, here is %d", version, ownerVersion)
	}
	n, vector := d.count(least), map[OwnerID]vectorEntry{}
	if n > MaxOwners {
		d.fail("has too many owners")
		n = 0
	}
	last := OwnerID("")
	for range n {
		owner := OwnerID(d.string())
		vector[owner] = vectorEntry{OwnerMark{d.u64(), d.u64()}, d.flag()}
		if vector[owner].mark.Incarnation > maxIncarnation {
			d.fail("has an incarnation that no node comes to")
		}
		if err := owner.check(); err != nil && d.problem == "" {
			return nil, fmt.Errorf("vector: %w", err)
		}
		if owner <= last {
			d.fail("is out of order")
		}
		last = owner
	}
	if problem := d.end(); problem != "" {
		return nil, fmt.Errorf("vector %s", problem)
	}
	return vector, nil
}
