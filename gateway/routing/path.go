package routing

import (
	"bytes"
	"fmt"
	"strings"
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
	// Marks are the oddities in the spelling. A route's Policy decides on them.
	Marks Marks
}

// PathError is a path that is refused.
type PathError struct {
	Path    string
	Problem string
}

func (e *PathError) Error() string { return fmt.Sprintf("path %q: %s", e.Path, e.Problem) }

// Canonical gives the form of raw that is matched. raw is the path as sent,
// without the query, and is not changed. When raw is canonical already the
// result shares its memory. The error is a *PathError: what no route can allow.
//
// The unreserved characters are those of RFC 3986 §2.3, and dot segments are
// removed as in §5.2.4.
func Canonical(raw []byte) (Path, error) {
	if len(raw) == 0 || raw[0] != '/' {
		return Path{}, refuse(raw, `does not begin with "/"`)
	}
	if plain(raw) {
		return Path{Canonical: raw}, nil
	}
	path, err := normalEncoding(raw)
	if err != nil {
		return Path{}, err
	}
	path.resolveSegments()
	return path, nil
}

// plain tells whether raw is canonical as it stands and has no oddity. Most
// paths are, and cost no more than this look.
func plain(raw []byte) bool {
	for i, c := range raw {
		switch {
		case !plainByte[c]:
			return false
		case c == '/' && i+1 < len(raw) && (raw[i+1] == '/' || raw[i+1] == '.'):
			return false
		}
	}
	return true
}

// plainByte are the bytes that a path may hold as they are (RFC 3986 §3.3) but
// ";", which some servers cut segments at.
var plainByte = func() (is [256]bool) {
	for c := range 256 {
		is[c] = unreserved(byte(c)) || c == '/' || strings.IndexByte(delimiters, byte(c)) >= 0
	}
	return is
}()

// normalEncoding gives every byte of raw its one spelling.
func normalEncoding(raw []byte) (Path, error) {
	path := Path{Canonical: raw}
	var out []byte // nil while nothing differs from raw
	for i := 0; i < len(raw); {
		spelling, width, err := path.canonicalByte(raw, i)
		if err != nil {
			return Path{}, err
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
func (p *Path) canonicalByte(raw []byte, i int) (spelling string, width int, err error) {
	c, width, escaped := raw[i], 1, false
	if c == '%' {
		high, low := hexValue(raw, i+1), hexValue(raw, i+2)
		if high < 0 || low < 0 {
			return "", 0, refuse(raw, fmt.Sprintf("%%%s is no escape", bytes.ToValidUTF8(raw[i+1:min(i+3, len(raw))], []byte("?"))))
		}
		c, width, escaped = byte(high<<4|low), 3, true
	}
	switch control := c < ' ' || c == 0x7f; {
	case control && !escaped:
		return "", 0, refuse(raw, fmt.Sprintf("control character 0x%02x", c))
	case c == '#' && !escaped:
		return "", 0, refuse(raw, `"#": a fragment is never sent`)
	case control:
		p.Marks |= Control
	case escaped:
		p.Marks |= escapeMarks[c]
	case c == '\\':
		p.Marks |= Backslash
	case c == ';':
		p.Marks |= Semicolon
	}
	switch {
	case unreserved(c):
		return plainSpelling[c], width, nil
	case escaped || c >= 0x80 || mustEscape(c):
		return escapedSpelling[c], width, nil
	default:
		return plainSpelling[c], width, nil
	}
}

// Offsets gives for each byte of the canonical form of raw where it stands in raw,
// and at last the length of raw. raw must be a path that is not restructured.
func Offsets(raw []byte) []int {
	var p Path
	offsets := make([]int, 0, len(raw)+1)
	for i := 0; i < len(raw); {
		spelling, width, err := p.canonicalByte(raw, i)
		if err != nil { // not a path
			return nil
		}
		for k := range len(spelling) {
			offsets = append(offsets, i+min(k, width-1))
		}
		i += width
	}
	return append(offsets, len(raw))
}

// resolveSegments removes empty and dot segments.
func (p *Path) resolveSegments() {
	segments := bytes.Split(p.Canonical[1:], []byte("/"))
	kept, last := segments[:0], len(segments)-1
	slash := false // whether the result ends in "/"
	for i, segment := range segments {
		p.Marks |= hiddenDots(segment)
		slash = false
		switch {
		case len(segment) == 0 && i == last: // the trailing slash itself
			slash = true
		case len(segment) == 0:
			p.Marks |= EmptySegment
			slash = true
		case string(segment) == ".":
			p.Marks |= DotSegment
			slash = true
		case string(segment) == "..":
			p.Marks |= DotSegment
			if len(kept) == 0 {
				p.Marks |= Climb
			}
			kept, slash = kept[:max(0, len(kept)-1)], true
		default:
			kept = append(kept, segment)
		}
	}
	if p.Restructured = p.Marks&(EmptySegment|DotSegment) != 0; p.Restructured {
		p.Canonical = joinSegments(kept, slash)
	}
}

func joinSegments(segments [][]byte, slash bool) []byte {
	joined := append([]byte("/"), bytes.Join(segments, []byte("/"))...)
	if slash && len(segments) > 0 {
		joined = append(joined, '/')
	}
	return joined
}

// hiddenDots finds a segment that is "." or ".." once a server cuts it at ";"
// (path parameters) or decodes its %2F.
func hiddenDots(segment []byte) Marks {
	if bytes.IndexByte(segment, '.') < 0 {
		return 0
	}
	var marks Marks
	slashes := bytes.Contains(segment, []byte("%2F"))
	for part := range bytes.SplitSeq(segment, []byte("%2F")) {
		name := cutParameter(part)
		if string(name) != "." && string(name) != ".." {
			continue
		}
		if len(name) < len(part) {
			marks |= DotParameter
		}
		if slashes {
			marks |= SlashDots
		}
	}
	return marks
}

// cutParameter cuts a segment at its first ";", encoded or not.
func cutParameter(segment []byte) []byte {
	for i, c := range segment {
		if c == ';' || c == '%' && bytes.HasPrefix(segment[i:], []byte("%3B")) {
			return segment[:i]
		}
	}
	return segment
}

// cutNothing is for servers that have no path parameters.
func cutNothing(segment []byte) []byte { return segment }

// cutPlainParameter cuts a segment at its first ";" that is not encoded.
func cutPlainParameter(segment []byte) []byte {
	segment, _, _ = bytes.Cut(segment, []byte(";"))
	return segment
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
	return bytes.IndexByte([]byte(` "<>[]^`+"`"+`{|}?#%\`), c) >= 0
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
