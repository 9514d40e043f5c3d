package routing

import (
	"bytes"
	"fmt"
)

// Path is a request path in the form that is matched.
type Path struct {
	// Canonical has unreserved characters decoded, other bytes that need it
	// encoded with upper-case digits, dot segments removed and runs of "/"
	// made one. %2F is never decoded.
	Canonical []byte
	// Restructured is set when the segments differ from those sent, so that
	// the canonical form has to be forwarded. Else only the encoding differs,
	// and the raw path is forwarded.
	Restructured bool
	// EncodedSlash is set when a %2F is in the path.
	EncodedSlash bool
}

// PathError is a path that is refused before it is matched.
type PathError struct {
	Path    string
	Problem string
}

func (e *PathError) Error() string { return fmt.Sprintf("path %q: %s", e.Path, e.Problem) }

// Canonical gives the form of raw that is matched. raw is the path as sent,
// without the query, and is not changed. When raw is canonical already the
// result shares its memory. The error is a *PathError.
//
// The unreserved characters are those of RFC 3986 §2.3, dot segments are
// removed as in §5.2.4, but a path that climbs above its root is refused.
func Canonical(raw []byte) (Path, error) {
	if len(raw) == 0 || raw[0] != '/' {
		return Path{}, refuse(raw, `does not begin with "/"`)
	}
	path, err := normalEncoding(raw)
	if err != nil {
		return Path{}, err
	}
	if plainSegments(path.Canonical) {
		return path, nil
	}
	return resolveSegments(path, raw)
}

// normalEncoding gives every byte of raw its one spelling.
func normalEncoding(raw []byte) (Path, error) {
	path := Path{Canonical: raw}
	var out []byte // nil while nothing differs from raw
	for i := 0; i < len(raw); {
		spelling, width, err := canonicalByte(raw, i)
		if err != nil {
			return Path{}, err
		}
		if spelling == "%2F" {
			path.EncodedSlash = true
		}
		if out == nil && string(raw[i:i+width]) != spelling {
			out = append(make([]byte, 0, len(raw)+2*len(spelling)), raw[:i]...)
		}
		if out != nil {
			out = append(out, spelling...)
		}
		i += width
	}
	if out != nil {
		path.Canonical = out
	}
	return path, nil
}

// canonicalByte reads the byte or escape at raw[i] and gives its one spelling
// and how many bytes of raw it took.
func canonicalByte(raw []byte, i int) (spelling string, width int, err error) {
	c, width, escaped := raw[i], 1, false
	if c == '%' {
		high, low := hexValue(raw, i+1), hexValue(raw, i+2)
		if high < 0 || low < 0 {
			return "", 0, refuse(raw, fmt.Sprintf("%%%s is no escape", bytes.ToValidUTF8(raw[i+1:min(i+3, len(raw))], []byte("?"))))
		}
		c, width, escaped = byte(high<<4|low), 3, true
	}
	switch {
	case c < ' ' || c == 0x7f:
		return "", 0, refuse(raw, fmt.Sprintf("control character 0x%02x", c))
	case c == '\\':
		return "", 0, refuse(raw, `backslash, which some servers take for "/"`)
	case c == '#' && !escaped:
		return "", 0, refuse(raw, `"#": a fragment is never sent`)
	case unreserved(c):
		return plainSpelling[c], width, nil
	case escaped || c >= 0x80 || mustEscape(c):
		return escapedSpelling[c], width, nil
	default:
		return plainSpelling[c], width, nil
	}
}

// plainSegments tells whether path has no empty, dot or suspicious segment, so
// that it needs no second look. A trailing slash is plain.
func plainSegments(path []byte) bool {
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.'):
			return false
		case path[i] == '%' && path[i+1] == '2' && path[i+2] == 'F':
			return false
		}
	}
	return true
}

// resolveSegments removes empty and dot segments from an encoded path.
func resolveSegments(path Path, raw []byte) (Path, error) {
	var kept [][]byte
	segments := bytes.Split(path.Canonical[1:], []byte("/"))
	last := len(segments) - 1
	slash := false // whether the result ends in "/"
	for i, segment := range segments {
		slash = false
		if hiddenDots(segment) {
			return Path{}, refuse(raw, fmt.Sprintf("segment %q would be a dot segment to some servers", segment))
		}
		switch string(segment) {
		case "", ".":
			slash = true
		case "..":
			if len(kept) == 0 {
				return Path{}, refuse(raw, `".." climbs above the root`)
			}
			kept, slash = kept[:len(kept)-1], true
		default:
			kept = append(kept, segment)
			continue
		}
		// An empty last segment is the trailing slash itself.
		if i < last || len(segment) > 0 {
			path.Restructured = true
		}
	}
	if !path.Restructured {
		return path, nil
	}
	path.Canonical = joinSegments(kept, slash)
	return path, nil
}

func joinSegments(segments [][]byte, slash bool) []byte {
	joined := append([]byte("/"), bytes.Join(segments, []byte("/"))...)
	if slash && len(segments) > 0 {
		joined = append(joined, '/')
	}
	return joined
}

// hiddenDots tells whether segment is "." or ".." once a server cuts it at ";"
// (path parameters) or decodes its %2F.
func hiddenDots(segment []byte) bool {
	parts := bytes.Split(segment, []byte("%2F"))
	for _, part := range parts {
		name, _, cut := bytes.Cut(part, []byte(";"))
		dots := string(name) == "." || string(name) == ".."
		if dots && (cut || len(parts) > 1) {
			return true
		}
	}
	return false
}

// DecodeSlashes gives the path that a server would see which decodes %2F.
func (p Path) DecodeSlashes() (Path, error) {
	return Canonical(bytes.ReplaceAll(p.Canonical, []byte("%2F"), []byte("/")))
}

// CutSegments removes the first n segments from a raw path. What remains
// begins with "/", and is "/" when nothing is left. raw must not be
// restructured (see Path).
func CutSegments(raw []byte, n int) []byte {
	rest := raw
	for ; n > 0 && len(rest) > 0; n-- {
		next := bytes.IndexByte(rest[1:], '/')
		if next < 0 {
			return []byte("/")
		}
		rest = rest[1+next:]
	}
	return rest
}

func refuse(raw []byte, problem string) error {
	return &PathError{Path: string(raw), Problem: problem}
}

// unreserved is RFC 3986 §2.3.
func unreserved(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '.' || c == '_' || c == '~'
}

// mustEscape are the visible characters that RFC 3986 allows in no path.
func mustEscape(c byte) bool {
	return bytes.IndexByte([]byte(` "<>[]^`+"`"+`{|}?#%`), c) >= 0
}

func hexValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch c := b[i]; {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// The spellings of every byte, made once so that none is allocated.
var plainSpelling, escapedSpelling = spellings()

func spellings() (plain, escaped [256]string) {
	for c := range 256 {
		plain[c], escaped[c] = string([]byte{byte(c)}), fmt.Sprintf("%%%02X", c)
	}
	return plain, escaped
}
