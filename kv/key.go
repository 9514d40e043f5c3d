package kv

import (
	"fmt"
	"strings"
)

// Limits of a key.
const (
	MaxKeyBytes    = 512
	MaxKeySegments = 16
)

// Key names an entry: 1 to 512 bytes in at most 16 segments that a slash
// divides, as gateway/routes/booking. The kv package gives the segments no
// meaning of its own.
type Key string

// KeyError says why a key, or a prefix of keys, is refused.
type KeyError struct {
	Key     string
	Problem string
}

func (e *KeyError) Error() string {
	return fmt.Sprintf("key %s: %s", quoteShort(e.Key), e.Problem)
}

// ParseKey checks s by the rules of Key: no empty segment, no segment that is
// "." or "..", and no byte but A-Z a-z 0-9 . _ ~ : @ + = and the hyphen. The
// error is a *KeyError.
func ParseKey(s string) (Key, error) {
	if problem := keyProblem(s); problem != "" {
		return "", &KeyError{Key: s, Problem: problem}
	}
	return Key(s), nil
}

func keyProblem(s string) string {
	if s == "" {
		return "is empty"
	}
	if len(s) > MaxKeyBytes {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), MaxKeyBytes)
	}
	if n := strings.Count(s, "/") + 1; n > MaxKeySegments {
		return fmt.Sprintf("has %d segments, at most %d are allowed", n, MaxKeySegments)
	}
	for i := range len(s) {
		if s[i] != '/' && !isKeyByte(s[i]) {
			return fmt.Sprintf("byte %d is %q, allowed are letters, digits and . _ ~ : @ + = - /", i+1, s[i:i+1])
		}
	}
	for segment := range strings.SplitSeq(s, "/") {
		switch segment {
		case "":
			return "has an empty segment: a slash stands between two segments, never first, last or twice"
		case ".", "..":
			return fmt.Sprintf("has the segment %q, which a path would resolve away", segment)
		}
	}
	return ""
}

func isKeyByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("._~:@+=-", c) >= 0
}

// quoteShort quotes s for a message and cuts what no terminal should be flooded with.
func quoteShort(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q... (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// Under reports whether prefix covers key. A prefix ends at a segment's end: it
// names the key itself and everything below it, so that "a/b" covers "a/b" and
// "a/b/c" but never "a/bc". With a final slash, "a/b/" covers only what is
// below. The empty prefix covers every key.
func Under(prefix string, key Key) bool {
	rest, ok := strings.CutPrefix(string(key), prefix)
	if !ok {
		return false
	}
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		return true
	}
	return rest == "" || rest[0] == '/'
}

// checkRange refuses a prefix whose deletion could not have been meant.
func checkRange(prefix string) error {
	if prefix == "" {
		return &KeyError{Key: prefix, Problem: "an empty prefix would delete every key"}
	}
	if problem := keyProblem(strings.TrimSuffix(prefix, "/")); problem != "" {
		return &KeyError{Key: prefix, Problem: "as a prefix: " + problem}
	}
	return nil
}
