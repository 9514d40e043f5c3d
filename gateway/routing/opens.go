package routing

// Opens tells whether r may take a request that guard would take, and is tried before
// it. Of a regular expression it is taken that it takes every path.
func (r *Rule) Opens(guard *Rule) bool {
	if r.Regex == nil && guard.Regex == nil && !r.Path.Overlaps(guard.Path) {
		return false
	}
	for _, c := range candidates(r) {
		for _, d := range candidates(guard) {
			if c.host.meets(d.host) && c.compare(d) < 0 {
				return true
			}
		}
	}
	return false
}

// meets tells whether a name may match both patterns. Of wildcards that is taken.
func (h host) meets(i host) bool {
	return h.kind() != exactHost || i.kind() != exactHost || h == i
}
