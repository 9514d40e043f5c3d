package routing

import "slices"

// list holds candidates of one place, ranked. A nil *list is empty.
type list struct {
	items []*candidate
	edit  *edit
}

func (l *list) lowest() rank {
	if l == nil {
		return lastRank
	}
	return l.items[0].rank
}

func (l *list) all() []*candidate {
	if l == nil {
		return nil
	}
	return l.items
}

// with gives the list with c in it.
func (l *list) with(e *edit, c *candidate) *list {
	switch {
	case l == nil:
		l = &list{edit: e}
	case l.edit != e:
		l = &list{items: slices.Clone(l.items), edit: e}
	}
	at, _ := slices.BinarySearchFunc(l.items, c, (*candidate).compareWithin)
	l.items = slices.Insert(l.items, at, c)
	return l
}

// without gives the list without c's rule and host, nil when it would be empty.
func (l *list) without(e *edit, c *candidate) *list {
	at := slices.IndexFunc(l.all(), func(d *candidate) bool { return d.rule == c.rule && d.host == c.host })
	switch {
	case at < 0:
		return l
	case len(l.items) == 1:
		return nil
	case l.edit != e:
		l = &list{items: slices.Clone(l.items), edit: e}
	}
	l.items = slices.Delete(l.items, at, at+1)
	return l
}
