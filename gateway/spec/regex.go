package spec

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// maxRegex is the longest expression that is taken.
const maxRegex = 4096

// Regex is a regular expression of Go, RE2: its time is linear, therefore it
// has no lookaround and no backreferences.
type Regex string

// UnmarshalText reads an expression that compiles, alone and within others.
func (r *Regex) UnmarshalText(text []byte) error {
	s := string(text)
	if len(s) > maxRegex {
		return fmt.Errorf("is longer than %d characters", maxRegex)
	}
	if err := parses(s); err != nil {
		return regexProblem(s, err)
	}
	for _, whole := range []string{`^(?:` + s + `)$`, `^(?:(?i:` + s + `))$`} {
		if err := parses(whole); err != nil {
			return wholeProblem(err)
		}
	}
	*r = Regex(s)
	return nil
}

func (Regex) pattern() string { return `.` }

// parses is regexp.Compile up to where it can fail, which is the cheap part.
func parses(s string) error {
	_, err := syntax.Parse(s, syntax.Perl)
	return err
}

// Compile gives the expression. A Regex that was decoded always compiles, also
// as (?i:r); one made by hand that does not is a mistake in the program.
func (r Regex) Compile() *regexp.Regexp { return regexp.MustCompile(string(r)) }

// Whole gives the expression for a whole text, where Compile's also finds a
// part of one.
func (r Regex) Whole() *regexp.Regexp { return regexp.MustCompile(`^(?:` + string(r) + `)$`) }

func regexProblem(s string, err error) error {
	problem := err.Error()
	if e := new(syntax.Error); errors.As(err, &e) {
		problem = fmt.Sprintf("%s: %q", e.Code, e.Expr)
	}
	switch {
	case strings.Contains(s, "(?=/|$)"):
		return fmt.Errorf("is not a Go regular expression, which has no lookahead (?=...): for a segment boundary write %s", boundary(s))
	case strings.Contains(s, "(?=") || strings.Contains(s, "(?!") || strings.Contains(s, "(?<=") || strings.Contains(s, "(?<!"):
		return errors.New("is not a Go regular expression, which has no lookaround (?=...) (?!...) (?<=...)")
	default:
		return fmt.Errorf("is not a Go regular expression: %s", problem)
	}
}

// wholeProblem is about an expression that compiles alone but not in a group: a
// quotation without an end takes the group's end too, and a group makes what is
// near a bound exceed it.
func wholeProblem(err error) error {
	e := new(syntax.Error)
	if errors.As(err, &e) && e.Code != syntax.ErrMissingParen {
		return fmt.Errorf("cannot be anchored: %s", e.Code)
	}
	return errors.New(`cannot be anchored: \Q quotes up to the end: write \E behind what it quotes`)
}

// boundary turns ^/policy(?=/|$)(.*) into the ^/policy(/.*)?$ that means the
// same.
func boundary(s string) string {
	prefix, _, _ := strings.Cut(s, "(?=/|$)")
	return prefix + "(/.*)?$"
}
