package kv

import "fmt"

// commitVersion is the first byte of an encoded commit. A later form gets the
// next number.
const commitVersion = 1

// AppendCommit appends the encoded commit to buf: 1 byte version, then the commit.
// Equal commits have equal bytes. What an effect says of its commit (the author,
// for one) is taken from the commit.
func AppendCommit(buf []byte, c Commit) []byte {
	e := encoder{buf: append(buf, commitVersion)}
	e.commit(c)
	return e.buf
}

// DecodeCommit reads what AppendCommit wrote, and nothing else: an error says
// what is wrong with the bytes. It takes memory in proportion to them; whether
// the content has its hash is for Merge to find.
func DecodeCommit(b []byte) (Commit, error) {
	if len(b) > 0 && b[0] > commitVersion {
		return Commit{}, fmt.Errorf("commit: version %d is newer than this program knows", b[0])
	}
	d := decoder{rest: b}
	if version := d.take(1)[0]; version != commitVersion {
		d.fail("has no version")
	}
	c := d.commit()
	if problem := d.end(); problem != "" {
		return Commit{}, fmt.Errorf("commit: %s", problem)
	}
	return c, nil
}

// encodeChange writes what the hash of a commit covers: the change, and a 1 if
// Else was done. That Then was done is the absence of the 1, as it was before
// there was one: past hashes stay what they are.
func encodeChange(c Commit) []byte {
	var e encoder
	e.change(c)
	if c.Else {
		e.flag(true)
	}
	return e.buf
}

// change writes what a commit does to the history. What every effect shares is
// written once.
//
//	string ID, rev, string By, string Message, time At
//	u32 number of effects, each:
//	    flag deleted, string key; for a put also: rev created, u64 version, bytes value
func (e *encoder) change(c Commit) {
	e.string(c.ID)
	e.rev(c.Rev)
	e.string(c.By)
	e.string(c.Message)
	e.time(c.At)
	e.u32(uint32(len(c.Effects)))
	for _, effect := range c.Effects {
		e.effect(effect)
	}
}

func (e *encoder) effect(effect Effect) {
	e.flag(effect.Deleted)
	e.string(string(effect.Entry.Key))
	if effect.Deleted {
		return
	}
	e.rev(effect.Entry.CreateRev)
	e.u64(effect.Entry.Version)
	e.bytes(effect.Entry.Value)
}

// leastEffect is the size of the smallest effect: a flag and an empty key.
const leastEffect = 1 + 4

func (d *decoder) change() Commit {
	c := Commit{ID: d.string(), Rev: d.rev(), By: d.string(), Message: d.string(), At: d.time()}
	for range d.count(leastEffect) {
		effect := d.effect()
		if !effect.Deleted {
			effect.Entry = c.entry(effect)
		}
		c.Effects = append(c.Effects, effect)
	}
	return c
}

func (d *decoder) effect() Effect {
	effect := Effect{Deleted: d.flag(), Entry: Entry{Key: Key(d.string())}}
	if !effect.Deleted {
		effect.Entry.CreateRev = d.rev()
		effect.Entry.Version = d.u64()
		effect.Entry.Value = d.bytes()
	}
	return effect
}

// commit writes a whole commit: u64 index, 64 bytes signature, flag Else, hash
// before, hash after, change.
func (e *encoder) commit(c Commit) {
	e.u64(c.Index)
	e.raw(c.Signature[:])
	e.flag(c.Else)
	e.raw(c.Prev[:])
	e.raw(c.Hash[:])
	e.change(c)
}

func (d *decoder) commit() Commit {
	index, signature, otherwise := d.u64(), d.signature(), d.flag()
	prev, hash := d.hash(), d.hash()
	c := d.change()
	c.Index, c.Signature, c.Else, c.Prev, c.Hash = index, signature, otherwise, prev, hash
	return c
}

// commitV1 reads a commit of the first version of steps, which had neither
// signature nor Else: u64 index, hash before, hash after, change.
func (d *decoder) commitV1() Commit {
	index, prev, hash := d.u64(), d.hash(), d.hash()
	c := d.change()
	c.Index, c.Prev, c.Hash = index, prev, hash
	return c
}
