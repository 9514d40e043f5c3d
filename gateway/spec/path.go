package spec

import "errors"

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
