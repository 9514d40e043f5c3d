package spec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// groupReference is what regexp.Expand reads as one, and $$ for a $.
var groupReference = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+)|(\$))`)

func (r *Rewrite) check(c *checks) {
	r.checkGroups(c)
	if c.failed("to") {
		return
	}
	if err := checkReplacement(r.To, strings.HasPrefix(string(r.Regex), "^")); err != nil {
		c.fault("to", "%v", err)
	}
}

func (r *Rewrite) checkGroups(c *checks) {
	if r.Regex == "" {
		return
	}
	groups := r.Regex.Compile().SubexpNames()
	for _, ref := range groupReference.FindAllStringSubmatch(r.To, -1) {
		name := ref[1] + ref[2]
		if name != "" && !slices.Contains(groups, name) && !isGroup(name, len(groups)) {
			c.fault("to", "%s names a group that regex does not have%s", ref[0], bracesHint(ref[2]))
		}
	}
}

// isGroup says whether a name is the number of one of count groups, with the
// whole match as group 0.
func isGroup(name string, count int) bool {
	for n := range count {
		if name == fmt.Sprint(n) {
			return true
		}
	}
	return false
}

// bracesHint helps with $1x, which Go reads as the group named "1x".
func bracesHint(name string) string {
	digits := strings.TrimRight(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
	if digits == "" || digits == name {
		return ""
	}
	return fmt.Sprintf(": write ${%s}%s", digits, strings.TrimPrefix(name, digits))
}

// checkReplacement wants what stands between the group references to be an
// escaped path, which begins with a slash where it stands for the beginning of
// the path. Nothing at all takes away what regex found.
func checkReplacement(to string, first bool) error {
	const reference = "\x00" // in the place of each
	if strings.Contains(to, reference) {
		return fmt.Errorf("must not hold %q", rune(0))
	}
	literal := groupReference.ReplaceAllStringFunc(to, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		return reference
	})
	if first && literal != "" && literal[0] != '/' && !strings.HasPrefix(literal, reference) {
		return errors.New("must begin with / or with a group, as $1, because regex begins with ^")
	}
	for i, c := range literal {
		switch {
		case c == '?':
			return errors.New("a path does not hold ?: change the query by transforms.query")
		case c == '#':
			return errors.New("a path does not hold #")
		case c == 0 || c == '/' || c == '%':
		case c > '~' || !isPathByte(byte(c)):
			return fmt.Errorf("must not hold %q: escape it with %%", []rune(literal[i:])[0])
		}
	}
	if !wellEscaped(literal) {
		return errBadEscape
	}
	return checkSegments(literal)
}

// checkSegments refuses dot segments that every replacement would have. The first
// may have begun before what regex found, and the last may go on behind it.
func checkSegments(literal string) error {
	segments := strings.Split(literal, "/")
	for _, s := range segments[min(1, len(segments)-1) : len(segments)-1] {
		if dots := strings.NewReplacer("%2e", ".", "%2E", ".").Replace(s); dots == "." || dots == ".." {
			return fmt.Errorf("segment %q: dot segments never reach a backend", s)
		}
	}
	return nil
}

var errBadEscape = errors.New("% must be followed by two hex digits")

// wellEscaped says whether two hex digits stand behind every %.
func wellEscaped(s string) bool {
	for i := range len(s) {
		if s[i] == '%' && (i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0) {
			return false
		}
	}
	return true
}
