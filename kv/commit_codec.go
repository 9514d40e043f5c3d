package kv

// encodeChange writes what a commit does to the history: the part that its hash
// covers. What every effect shares is written once.
//
//	string ID, rev, string By, string Message, time At
//	u32 number of effects, each:
//	    flag deleted, string key; for a put also: rev created, u64 version, bytes value
func encodeChange(c Commit) []byte {
	var e encoder
	e.change(c)
	return e.buf
}

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

// commit writes a whole commit: u64 index, hash before, hash after, change.
func (e *encoder) commit(c Commit) {
	e.u64(c.Index)
	e.raw(c.Prev[:])
	e.raw(c.Hash[:])
	e.change(c)
}

func (d *decoder) commit() Commit {
	index, prev, hash := d.u64(), d.hash(), d.hash()
	c := d.change()
	c.Index, c.Prev, c.Hash = index, prev, hash
	return c
}
