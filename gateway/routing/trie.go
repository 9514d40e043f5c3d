package routing

import "grapevine/gateway/spec"

// Trie finds the rule that takes a request. It is immutable: an Edit makes
// another one that shares what did not change. The nil *Trie is empty.
//
// There is a tree of path segments for each host pattern. The tree only narrows
// down: steps go by the hashes of segments, and each candidate that is reached is
// compared with the request as a whole. So a match reads a few cache lines
// however many rules there are, and a step that was wrong costs time alone. Every
// node knows the least rank below it, and one that can't beat what was found is
// not entered.
type Trie struct {
	hosts, wildcards *branch[*group]
	any              *group
}

// group are the rules of one host pattern.
type group struct {
	host   host  // the same memory for all candidates: it stays in the cache
	exact  *node // matched with the path as it is
	folded *node // matched with the path in lower case
	// expressions are those of pathRegex, ranked.
	expressions *list
}

func (g *group) lowest() rank {
	if g == nil {
		return lastRank
	}
	return min(g.exact.lowest(), g.folded.lowest(), g.expressions.lowest())
}

// node is where a path stands after some segments.
type node struct {
	// only is the one candidate here or below, if it has a rule. Nothing else is
	// set then: no more nodes are made before a second candidate comes that way.
	only     candidate
	literals *branch[*node] // by the next segment
	param    *node          // when the next segment may be any
	ends     *list          // whose template ends here
	rests    *list          // whose catch-all stands here
	least    rank
	edit     *edit
	_        [3]uint64 // with 128 bytes a leaf's candidate is in one cache line
}

func (n *node) isLeaf() bool { return n.only.rule != nil }

func (n *node) lowest() rank {
	if n == nil {
		return lastRank
	}
	return n.least
}

// Edit is a series of changes to a trie, by one goroutine.
type Edit struct {
	trie Trie
	edit *edit
}

// Edit begins changes. t itself stays as it is.
func (t *Trie) Edit() *Edit {
	e := &Edit{edit: new(edit)}
	if t != nil {
		e.trie = *t
	}
	return e
}

// Done gives the changed trie. The edit must not be used any more.
func (e *Edit) Done() *Trie { return &e.trie }

// Insert adds a rule. Its id must not be there yet.
func (e *Edit) Insert(r *Rule) {
	for _, c := range candidates(r) {
		e.change(c, (*group).insert)
	}
}

// Remove takes away a rule that was inserted.
func (e *Edit) Remove(r *Rule) {
	for _, c := range candidates(r) {
		e.change(c, (*group).remove)
	}
}

// change gives a copy of the candidate's group to do, and puts it in its place.
func (e *Edit) change(c *candidate, do func(*group, *edit, *candidate)) {
	switch c.host.kind() {
	case exactHost:
		e.trie.hosts = e.changeIn(e.trie.hosts, c, do)
	case wildcardHost:
		e.trie.wildcards = e.changeIn(e.trie.wildcards, c, do)
	default:
		e.trie.any = e.changed(e.trie.any, c, do)
	}
}

func (e *Edit) changeIn(groups *branch[*group], c *candidate, do func(*group, *edit, *candidate)) *branch[*group] {
	hash := hashOf([]byte(c.host))
	if g := e.changed(groups.get(hash), c, do); g != nil {
		return groups.set(e.edit, hash, g)
	}
	return groups.del(e.edit, hash)
}

func (e *Edit) changed(g *group, c *candidate, do func(*group, *edit, *candidate)) *group {
	now := &group{host: c.host}
	if g != nil {
		*now = *g
	}
	if c.host == now.host {
		c.host = now.host
	}
	do(now, e.edit, c)
	if now.exact == nil && now.folded == nil && now.expressions == nil {
		return nil
	}
	return now
}

func (g *group) insert(e *edit, c *candidate) {
	switch {
	case c.rule.Regex != nil:
		g.expressions = g.expressions.with(e, c)
	case c.rule.Fold:
		g.folded = g.folded.insert(e, 0, c)
	default:
		g.exact = g.exact.insert(e, 0, c)
	}
}

func (g *group) remove(e *edit, c *candidate) {
	switch {
	case c.rule.Regex != nil:
		g.expressions = g.expressions.without(e, c)
	case c.rule.Fold:
		g.folded = g.folded.remove(e, 0, c)
	default:
		g.exact = g.exact.remove(e, 0, c)
	}
}

// insert gives the node with c in it; depth is how many segments lead to it.
func (n *node) insert(e *edit, depth int, c *candidate) *node {
	if n == nil {
		return &node{only: *c, least: c.rank, edit: e}
	}
	n = n.mine(e)
	if n.isLeaf() {
		first := n.only
		n.only = candidate{}
		n.add(e, depth, &first)
	}
	n.add(e, depth, c)
	n.measure()
	return n
}

func (n *node) add(e *edit, depth int, c *candidate) {
	switch segment, ended := c.segment(depth); {
	case ended:
		n.ends = n.ends.with(e, c)
	case segment.Kind == spec.CatchAll:
		n.rests = n.rests.with(e, c)
	case segment.Kind == spec.Parameter:
		n.param = n.param.insert(e, depth+1, c)
	default:
		hash := c.hash(segment)
		n.literals = n.literals.set(e, hash, n.literals.get(hash).insert(e, depth+1, c))
	}
}

// remove gives the node without c, nil when it would be empty.
func (n *node) remove(e *edit, depth int, c *candidate) *node {
	if n == nil || n.isLeaf() {
		return nil // the leaf is c's: it was inserted
	}
	n = n.mine(e)
	switch segment, ended := c.segment(depth); {
	case ended:
		n.ends = n.ends.without(e, c)
	case segment.Kind == spec.CatchAll:
		n.rests = n.rests.without(e, c)
	case segment.Kind == spec.Parameter:
		n.param = n.param.remove(e, depth+1, c)
	default:
		n.removeLiteral(e, depth, c.hash(segment), c)
	}
	if n.literals == nil && n.param == nil && n.ends == nil && n.rests == nil {
		return nil
	}
	n.measure()
	return n
}

func (n *node) removeLiteral(e *edit, depth int, hash uint64, c *candidate) {
	child := n.literals.get(hash)
	if child == nil {
		return
	}
	if child = child.remove(e, depth+1, c); child != nil {
		n.literals = n.literals.set(e, hash, child)
		return
	}
	n.literals = n.literals.del(e, hash)
}

func (n *node) mine(e *edit) *node {
	if n.edit == e {
		return n
	}
	now := *n
	now.edit = e
	return &now
}

func (n *node) measure() {
	n.least = min(n.literals.lowest(), n.param.lowest(), n.ends.lowest(), n.rests.lowest())
}
