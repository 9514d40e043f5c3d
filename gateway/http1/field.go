package http1

import "grapevine/gateway/exchange"

// parseField reads the field line at b[pos:], which does not begin with CR. next
// is where the line after it begins, 0 when b ends within this one. RFC 9112 §5.
func parseField(b []byte, pos int) (field exchange.Field, next int, err error) {
	i := pos
	for i < len(b) && isToken[b[i]] {
		i++
	}
	if i == len(b) {
		return field, 0, nil
	}
	if b[i] != ':' || i == pos {
		return field, 0, refuseName(b, pos, i)
	}
	end, next, err := lineEnd(b, i+1)
	if next == 0 {
		return field, 0, err
	}
	value := trim(b[i+1 : end])
	return exchange.Field{Name: b[pos:i:i], Value: value[:len(value):len(value)]}, next, nil
}

// refuseName says what is wrong with the line at b[pos:] whose name ends at i.
func refuseName(b []byte, pos, i int) error {
	blank := b[i] == ' ' || b[i] == '\t'
	switch {
	case blank && i == pos:
		return errFold
	case blank:
		return errSpaceBeforeColon
	case b[i] == '\n':
		return errBareLF
	}
	return errFieldName
}

// lineEnd finds where the text at b[pos:] ends and the next line begins; next is
// 0 when b ends before.
func lineEnd(b []byte, pos int) (end, next int, err error) {
	end = textEnd(b, pos)
	switch {
	case end == len(b):
		return 0, 0, nil
	case b[end] == '\n':
		return 0, 0, errBareLF
	case b[end] != '\r':
		return 0, 0, errControl
	case end+1 == len(b):
		return 0, 0, nil
	case b[end+1] != '\n':
		return 0, 0, errBareCR
	}
	return end, end + 2, nil
}

// emptyLine tells whether the line at b[pos:] is empty, which ends a head. known
// is false when b ends too early to tell.
func emptyLine(b []byte, pos int) (empty, known bool, err error) {
	switch {
	case pos == len(b):
		return false, false, nil
	case b[pos] != '\r':
		return false, true, nil
	case pos+1 == len(b):
		return false, false, nil
	case b[pos+1] != '\n':
		return false, true, errBareCR
	}
	return true, true, nil
}

// canEnd tells whether a head that was not whole in b[:seen] can be whole, or
// refused, in b: without a new LF it is as it was.
func canEnd(b []byte, seen int) bool {
	for i := len(b) - 1; i >= seen; i-- {
		if b[i] == '\n' {
			return true
		}
	}
	return false
}
