package spec

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Target is where a redirect leads: an absolute path, or an http or https URL.
// Its path may hold {name} placeholders.
type Target string

// TargetParts is a target taken apart.
type TargetParts struct {
	Origin string // scheme://host, or empty: the client's own
	Path   []TargetPiece
	// Query begins with "?" and is empty where the request's own is kept; "?"
	// alone drops it.
	Query    string
	Fragment string // with its "#"
}

// TargetPiece is text that stands for itself, or the name of a placeholder.
type TargetPiece struct {
	Text        string
	Placeholder bool
}

// UnmarshalText reads a target.
func (t *Target) UnmarshalText(text []byte) error {
	s := string(text)
	if i := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }); i >= 0 {
		return fmt.Errorf("must not hold %q: escape it with %%", []rune(s[i:])[0])
	}
	if !wellEscaped(s) {
		return errBadEscape
	}
	origin, rest, err := cutOrigin(s)
	if err != nil {
		return err
	}
	if err := checkPlaceholders(rest); err != nil {
		return err
	}
	*t = Target(origin + rest)
	return nil
}

func (Target) pattern() string { return `^(/|https?://)` }

// cutOrigin parts a target before its path and gives the origin in lower case.
func cutOrigin(s string) (origin, rest string, err error) {
	if strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") {
		return "", s, nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil && !strings.HasPrefix(s, "//"):
		return "", "", reason(err)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return "", "", errors.New("must be a path that begins with one /, or an http or https URL")
	}
	if u.Host, err = parseHostPort(u.Host); err != nil {
		return "", "", err
	}
	_, rest, _ = strings.Cut(s, "://")
	return u.Scheme + "://" + u.Host, rest[min(len(rest), endOf(rest, "/?#")):], nil
}

// endOf is where the first of some bytes stands, or the length of s.
func endOf(s, bytes string) int {
	if i := strings.IndexAny(s, bytes); i >= 0 {
		return i
	}
	return len(s)
}

// checkPlaceholders wants every brace to belong to a {name} of the path.
func checkPlaceholders(s string) error {
	end := endOf(s, "?#")
	if strings.ContainsAny(s[end:], "{}") {
		return errors.New("may hold a {name} in its path only: write %7B and %7D for braces")
	}
	for _, p := range targetPieces(s[:end]) {
		switch {
		case p.Placeholder && strings.HasPrefix(p.Text, "*"):
			return fmt.Errorf("placeholder {%s}: write {%s}", p.Text, strings.TrimLeft(p.Text, "*"))
		case p.Placeholder && !parameterName.MatchString(p.Text):
			return fmt.Errorf("placeholder {%s}: a parameter's name is up to 64 letters, digits, _ and -", shorten(p.Text))
		case !p.Placeholder && strings.ContainsAny(p.Text, "{}"):
			return errors.New("has a brace without its other half: write {name}, or %7B and %7D for braces")
		}
	}
	return nil
}

// targetPieces cuts a path at its placeholders.
func targetPieces(path string) (pieces []TargetPiece) {
	for path != "" {
		opened := strings.IndexByte(path, '{')
		closed := strings.IndexByte(path[max(0, opened):], '}')
		if opened < 0 || closed < 0 {
			return append(pieces, TargetPiece{Text: path})
		}
		if opened > 0 {
			pieces = append(pieces, TargetPiece{Text: path[:opened]})
		}
		pieces = append(pieces, TargetPiece{Text: path[opened+1 : opened+closed], Placeholder: true})
		path = path[opened+closed+1:]
	}
	return pieces
}

// Parts takes apart a target that was decoded.
func (t Target) Parts() TargetParts {
	origin, rest, _ := cutOrigin(string(t))
	rest, fragment := rest[:endOf(rest, "#")], rest[endOf(rest, "#"):]
	path, query := rest[:endOf(rest, "?")], rest[endOf(rest, "?"):]
	return TargetParts{Origin: origin, Path: targetPieces(path), Query: query, Fragment: fragment}
}

// groupLike is how a group of a regular expression is written in other gateways.
var groupLike = regexp.MustCompile(`\$[0-9]`)

// checkRedirect makes sure that the path has what the target names.
func checkRedirect(c *checks, path Path, r *Redirect) {
	if r == nil || c.failed("path") {
		return
	}
	var has []string
	for _, s := range path.Template().Segments {
		if s.Kind != Literal {
			has = append(has, s.Text)
		}
	}
	for _, p := range r.To.Parts().Path {
		if p.Placeholder && !slices.Contains(has, p.Text) {
			c.fault("redirect.to", "{%s} is no parameter of %s", p.Text, parametersOf(path, has))
		}
		if group := groupLike.FindString(p.Text); group != "" && !p.Placeholder {
			c.notice("redirect.to", "%s is taken literally; write {name} for a parameter of the path", group)
		}
	}
}

func parametersOf(path Path, has []string) string {
	switch {
	case path == "":
		return "a pathRegex, which has none"
	case len(has) == 0:
		return fmt.Sprintf("path %q, which has none", string(path))
	default:
		return fmt.Sprintf("path %q, which has %s", string(path), strings.Join(has, ", "))
	}
}
