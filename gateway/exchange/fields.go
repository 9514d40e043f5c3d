package exchange

import (
	"iter"
	"unsafe"
)

// Field is one header line. Name and Value are slices of a buffer owned by
// whoever made the Exchange.
type Field struct{ Name, Value []byte }

// Fields are header lines in the order of the wire. Names compare without
// case (RFC 9110 §5.1).
type Fields []Field

// Get returns the first value of name, or nil when the field is absent. A
// field that is present and empty yields an empty, non-nil slice.
func (f Fields) Get(name string) []byte {
	for i := range f {
		if EqualName(f[i].Name, name) {
			return f[i].Value[:len(f[i].Value):len(f[i].Value)]
		}
	}
	return nil
}

// Has tells whether name occurs.
func (f Fields) Has(name string) bool {
	for i := range f {
		if EqualName(f[i].Name, name) {
			return true
		}
	}
	return false
}

// Values yields each value of name in order.
func (f Fields) Values(name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range f {
			if EqualName(f[i].Name, name) && !yield(f[i].Value) {
				return
			}
		}
	}
}

// Add appends a line. The name's bytes are those of the string: nobody may change
// the bytes of a name in place.
func (f *Fields) Add(name string, value []byte) {
	*f = append(*f, Field{Name: unsafe.Slice(unsafe.StringData(name), len(name)), Value: value})
}

// Set replaces every line called name by one, in the first one's place.
func (f *Fields) Set(name string, value []byte) {
	for i := range *f {
		if EqualName((*f)[i].Name, name) {
			(*f)[i].Value = value
			f.drop(i+1, func(n []byte) bool { return EqualName(n, name) })
			return
		}
	}
	f.Add(name, value)
}

// Del removes every line called name.
func (f *Fields) Del(name string) {
	f.drop(0, func(n []byte) bool { return EqualName(n, name) })
}

// DelFunc removes every line whose name del accepts.
func (f *Fields) DelFunc(del func(name []byte) bool) { f.drop(0, del) }

// drop removes matching lines from index from on, keeping the order. Mostly there
// are none, and then nothing is written.
func (f *Fields) drop(from int, del func(name []byte) bool) {
	for from < len(*f) && !del((*f)[from].Name) {
		from++
	}
	if from == len(*f) {
		return
	}
	kept := (*f)[:from]
	for _, field := range (*f)[from+1:] {
		if !del(field.Name) {
			kept = append(kept, field)
		}
	}
	*f = kept
}

// EqualName compares two field names without ASCII case.
func EqualName(name []byte, to string) bool {
	if len(name) != len(to) {
		return false
	}
	for i := range name {
		if lower(name[i]) != lower(to[i]) {
			return false
		}
	}
	return true
}

// SameField compares two field names as servers may that read "_" and "-" as the
// same (CGI, RFC 3875 §4.1.18), without ASCII case.
func SameField(name []byte, to string) bool {
	if len(name) != len(to) {
		return false
	}
	for i := range name {
		if c, d := lower(name[i]), lower(to[i]); c != d && !(separates(c) && separates(d)) {
			return false
		}
	}
	return true
}

func separates(c byte) bool { return c == '-' || c == '_' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
