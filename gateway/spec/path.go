package spec

import (
	"errors"
	"strings"
)

// Path is the text of a template in its canonical form.
type Path string

// UnmarshalText reads a template.
func (p *Path) UnmarshalText(text []byte) error {
	t, err := ParseTemplate(string(text))
	if err != nil {
		return err
	}
	*p = Path(t.String())
	return nil
}

func (Path) pattern() string { return `^/` }

// Template is the parsed form. A Path that was decoded always has one; the
// empty Path has the zero Template.
func (p Path) Template() Template {
	t, _ := ParseTemplate(string(p))
	return t
}

// noticeColons tells of a segment that looks like a parameter of other routers.
func noticeColons(c *checks, path Path) {
	for _, s := range path.Template().Segments {
		name, looks := strings.CutPrefix(s.Text, ":")
		if s.Kind != Literal || !looks {
			continue
		}
		if !parameterName.MatchString(name) {
			name = "name"
		}
		c.notice("path", "segment %q is taken literally; a parameter is written {%s}", shorten(s.Text), name)
	}
}

// Prefix is a path without parameters, in the encoding of Template's literals.
type Prefix string

// UnmarshalText reads a path.
func (p *Prefix) UnmarshalText(text []byte) error {
	t, err := ParseTemplate(string(text))
	switch {
	case err != nil:
		return err
	case t.Literals() < len(t.Segments):
		return errors.New("must be a plain path, without {parameters}")
	}
	*p = Prefix(t.String())
	return nil
}

func (Prefix) pattern() string { return `^/[^{}?#]*$` }
