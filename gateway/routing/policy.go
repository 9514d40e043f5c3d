package routing

import (
	"bytes"
	"fmt"
	"iter"
	"math/bits"

	"grapevine/gateway/spec"
)

// Marks are oddities in the spelling of a path, as bits.
type Marks uint16

// The first six are refused unless the route allows them: servers differ in
// what they take them for. The others may be refused by a route.
const (
	Backslash    Marks = 1 << iota // "\" or %5C
	Control                        // an encoded control character
	Climb                          // ".." above the root
	DotParameter                   // "." or ".." before ";"
	SlashDots                      // "." or ".." beside %2F
	Ambiguous                      // another route's path once escapes are decoded or ";" cut; see Lenient
	EncodedSlash
	EncodedPercent
	EncodedQuestionMark
	EncodedHash
	EncodedSemicolon
	Semicolon
	EmptySegment
	DotSegment
	EncodedDelimiter // an escape of a character that may stand for itself
)

const refusedByDefault = Backslash | Control | Climb | DotParameter | SlashDots

// escapeMarks are the marks of escapes, by what they stand for.
var escapeMarks = func() (marks [256]Marks) {
	for _, c := range delimiters {
		marks[c] = EncodedDelimiter
	}
	marks['\\'], marks['/'], marks['%'] = Backslash, EncodedSlash, EncodedPercent
	marks['?'], marks['#'], marks[';'] = EncodedQuestionMark, EncodedHash, EncodedSemicolon
	return marks
}()

// delimiters are the characters that mean something to some servers and nothing
// to most (RFC 3986 §3.3: sub-delims, ":" and "@") but ";". Escaped or not, most
// servers route by them alike.
const delimiters = "!$&'()*+,=:@"

// problems say what is wrong with each mark, in the order of the bits.
var problems = [...]string{
	`backslash, which some servers take for "/"`,
	"encoded control character",
	`".." climbs above the root`,
	`a segment would be a dot segment to servers that cut it at ";"`,
	"a segment would be a dot segment to servers that decode %2F",
	`it is the path of another route to servers that decode its escapes or cut segments at ";"`,
	`the route refuses an encoded "/"`,
	`the route refuses an encoded "%"`,
	`the route refuses an encoded "?"`,
	`the route refuses an encoded "#"`,
	`the route refuses an encoded ";"`,
	`the route refuses ";"`,
	"the route refuses empty segments",
	"the route refuses dot segments",
	"the route refuses escaped delimiters",
}

// Policy is what a route allows in the spelling of its paths, and refuses. The
// zero Policy is the default.
type Policy struct {
	allow, refuse Marks
	// What follows says that paths with %2F, ";" and escaped delimiters are taken
	// whatever a lenient server makes of them.
	slashes, parameters, delimiters bool
}

// NewPolicy reads the policy of a route. What stands in the route's own path is
// meant, so it is allowed.
func NewPolicy(r *spec.Route) Policy {
	var p Policy
	if s := r.PathPolicy; s != nil {
		for _, name := range s.Allow {
			p.allow |= allowed[name]
		}
		for _, name := range s.Refuse {
			p.refuse |= refused[name]
		}
	}
	own, err := Canonical([]byte(r.Path))
	if r.Path == "" || err != nil {
		own.Marks = 0
	}
	p.slashes = p.allow&SlashDots != 0 || own.Marks&EncodedSlash != 0
	p.parameters = p.allow&DotParameter != 0 || own.Marks&(Semicolon|EncodedSemicolon) != 0
	p.delimiters = p.allow&EncodedDelimiter != 0 || own.Marks&EncodedDelimiter != 0
	return p
}

// The words of spec.PathPolicy.
var (
	allowed = map[string]Marks{
		"backslash": Backslash, "control": Control, "climb": Climb, "pathParameter": DotParameter, "encodedSlash": SlashDots,
		"encodedDelimiter": EncodedDelimiter,
	}
	refused = map[string]Marks{
		"encodedSlash": EncodedSlash, "encodedPercent": EncodedPercent, "encodedQuestionMark": EncodedQuestionMark,
		"encodedHash": EncodedHash, "encodedSemicolon": EncodedSemicolon, "semicolon": Semicolon,
		"emptySegment": EmptySegment, "dotSegment": DotSegment,
	}
)

// Check gives a *PathError when the policy refuses raw for its marks.
func (p Policy) Check(raw []byte, marks Marks) error {
	bad := marks & (refusedByDefault&^p.allow | p.refuse)
	if bad == 0 {
		return nil
	}
	return refuse(raw, problems[bits.TrailingZeros16(uint16(bad))])
}

// ErrAmbiguous is the refusal of a path which is another route's to a lenient
// server (see Lenient).
func ErrAmbiguous(raw []byte) error {
	return refuse(raw, problems[bits.TrailingZeros16(uint16(Ambiguous))])
}

// Lenient gives the canonical paths that servers may see which decode escaped
// delimiters, decode %2F, or cut segments at ";" or also at %3B: any of it that
// the policy does not allow, in any order. None is the path itself.
func (p Policy) Lenient(path Path) iter.Seq[[]byte] {
	slashes := path.Marks&EncodedSlash != 0 && !p.slashes
	delimiters := path.Marks&EncodedDelimiter != 0 && !p.delimiters
	parameters := path.Marks&(Semicolon|EncodedSemicolon) != 0 && !p.parameters
	return func(yield func([]byte) bool) {
		if !slashes && !delimiters && !parameters {
			return
		}
		give := func(read []byte) bool {
			read = canonicalAgain(read)
			return bytes.Equal(read, path.Canonical) || yield(read)
		}
		spellings := [][]byte{path.Canonical}
		if delimiters {
			spellings = append(spellings, decodeDelimiters(path.Canonical))
		}
		cuts := []func([]byte) []byte{cutNothing} // from the one that cuts least to the one that cuts most
		if parameters {
			cuts = append(cuts, cutPlainParameter, cutParameter)
		}
		for _, spelling := range spellings {
			for i, before := range cuts {
				read := cutSegments(spelling, before)
				if !give(read) {
					return
				}
				if !slashes {
					continue
				}
				read = decodeSlashes(read)
				for _, after := range cuts[i:] { // the others find nothing more to cut
					if !give(cutSegments(read, after)) {
						return
					}
				}
			}
		}
	}
}

// decodeDelimiters decodes the escapes of delimiters in a canonical path.
func decodeDelimiters(path []byte) []byte {
	decoded := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if path[i] == '%' {
			if c := byte(hexValue(path, i+1)<<4 | hexValue(path, i+2)); escapeMarks[c] == EncodedDelimiter {
				decoded = append(decoded, c)
				i += 2
				continue
			}
		}
		decoded = append(decoded, path[i])
	}
	return decoded
}

func decodeSlashes(path []byte) []byte {
	return bytes.ReplaceAll(path, []byte("%2F"), []byte("/"))
}

func cutSegments(path []byte, cut func(segment []byte) []byte) []byte {
	kept := make([]byte, 0, len(path))
	for segment := range bytes.SplitSeq(path[1:], []byte("/")) {
		kept = append(append(kept, '/'), cut(segment)...)
	}
	return kept
}

// canonicalAgain is for canonical paths that were cut or decoded.
func canonicalAgain(path []byte) []byte {
	again, err := Canonical(path)
	if err != nil { // it is still a path
		panic(fmt.Sprintf("routing: %q: %v", path, err))
	}
	return again.Canonical
}
