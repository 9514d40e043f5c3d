package routing

import "bytes"

// Hostname is the host of an authority as rules compare it: without port and
// trailing dot, in lower case. An IPv6 address keeps its brackets. The result
// shares authority's memory, or buffer's when it has to be changed.
func Hostname(authority, buffer []byte) []byte {
	name := authority
	if end := bytes.LastIndexByte(name, ']'); end >= 0 {
		name = name[:end+1]
	} else if colon := bytes.LastIndexByte(name, ':'); colon >= 0 {
		name = name[:colon]
	}
	return lower(bytes.TrimSuffix(name, []byte(".")), buffer)
}

// lower folds ASCII letters, in buffer if there are upper-case ones.
func lower(text, buffer []byte) []byte {
	for i, c := range text {
		if c < 'A' || c > 'Z' {
			continue
		}
		folded := append(buffer[:0], text...)
		for ; i < len(folded); i++ {
			if c := folded[i]; 'A' <= c && c <= 'Z' {
				folded[i] += 'a' - 'A'
			}
		}
		return folded
	}
	return text
}
