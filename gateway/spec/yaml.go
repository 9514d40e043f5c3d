package spec

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxEntries bounds the fields of a value in YAML, because the parser's time
// grows with their square. A file may have more: it is its owner's time.
const maxEntries = 10_000

// yaml reads one YAML document of maps, lists and scalars. A plain scalar stays
// the text that was written: what it means is for the schema to say, so that
// `version: 1.10` and `name: on` are texts where a text is due. Anchors,
// aliases, merge keys, tags and directives are refused, because a value that
// depends on another place cannot be read, compared or changed by itself.
func (s source) yaml(data []byte) (t *tree, faults Faults) {
	// The parser panics on some malformed inputs; for us they are malformed.
	defer func() {
		if recover() != nil {
			t, faults = nil, Faults{place{s, 1, 1}.fault("not valid YAML: it cannot be read at all")}
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if faults := s.refuse(tokens); len(faults) > 0 {
		return nil, faults
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, Faults{s.malformed(err)}
	}
	return s.documents(file)
}

// refuse looks for what we do not take before the parser sees it.
func (s source) refuse(tokens token.Tokens) (faults Faults) {
	var n nesting
	for _, tk := range tokens {
		n.count(tk)
		if problem := n.problem(s.file != ""); problem != "" {
			return append(faults, s.place(tk).fault("%s", problem))
		}
		if problem := unsupported(tk.Type); problem != "" {
			faults = append(faults, s.place(tk).fault("%s", problem))
		}
	}
	return faults
}

// nesting bounds what the parser is given, whose time grows with the square of
// the depth. Depth by indentation needs no bound of its own: the square is in
// the length of the input already.
type nesting struct {
	flow    int // open brackets and braces
	run     int // list entries on this line
	line    int
	entries int
}

func (n *nesting) count(tk *token.Token) {
	if tk.Position.Line != n.line {
		n.run, n.line = 0, tk.Position.Line
	}
	switch tk.Type {
	case token.MappingStartType, token.SequenceStartType:
		n.flow++
	case token.MappingEndType, token.SequenceEndType:
		n.flow--
	case token.SequenceEntryType:
		n.run++
	case token.MappingValueType:
		n.entries++
	}
}

func (n *nesting) problem(inFile bool) string {
	switch {
	case n.flow > maxDepth || n.run > maxDepth:
		return fmt.Sprintf("nested deeper than %d levels", maxDepth)
	case n.entries > maxEntries && !inFile:
		return fmt.Sprintf("more than %d fields: write JSON instead", maxEntries)
	default:
		return ""
	}
}

func unsupported(t token.Type) (problem string) {
	switch t {
	case token.AnchorType:
		return "anchors (&name) are not supported: write the value out, or put a text that begins with & in quotes"
	case token.AliasType:
		return "aliases (*name) are not supported: write the value out, or put a text that begins with * in quotes"
	case token.MergeKeyType:
		return "merge keys (<<) are not supported: write the fields out"
	case token.TagType:
		return "tags (!name) are not supported: the field says what its value is"
	case token.DirectiveType:
		return "directives (%NAME) are not supported"
	case token.MappingKeyType:
		return "complex keys (?) are not supported: write name: value"
	default:
		return ""
	}
}

func (s source) malformed(err error) Fault {
	at, problem := place{s, 1, 1}, err.Error()
	if e := yaml.Error(nil); errors.As(err, &e) {
		at, problem = s.place(e.GetToken()), e.GetMessage()
	}
	return at.fault("not valid YAML: %s", problem)
}

func (s source) documents(file *ast.File) (*tree, Faults) {
	r := yamlReader{source: s}
	t := &tree{kind: null, at: place{s, 1, 1}}
	for i, doc := range file.Docs {
		if i > 0 && doc.Body != nil {
			r.fault(doc.Body, "a second YAML document: only one is read")
			break
		}
		t = r.value(doc.Body, t.at, 0)
	}
	return t, r.faults
}

type yamlReader struct {
	source
	faults Faults
}

func (r *yamlReader) fault(n ast.Node, problem string, args ...any) {
	r.faults = append(r.faults, r.place(n.GetToken()).fault(problem, args...))
}

// value reads one node. A container stands where at says, so that one with a
// name stands where its name does.
func (r *yamlReader) value(n ast.Node, at place, depth int) *tree {
	if depth > maxDepth {
		r.fault(n, "nested deeper than %d levels", maxDepth)
		return &tree{kind: null, at: at}
	}
	switch n := n.(type) {
	case nil:
		return &tree{kind: null, at: at}
	case *ast.NullNode:
		return &tree{kind: null, at: at}
	case *ast.MappingNode:
		return r.dict(n.Values, at, depth)
	case *ast.MappingValueNode:
		return r.dict([]*ast.MappingValueNode{n}, at, depth)
	case *ast.SequenceNode:
		return r.list(n.Values, at, depth)
	default:
		return r.scalar(n)
	}
}

func (r *yamlReader) dict(values []*ast.MappingValueNode, at place, depth int) *tree {
	t := &tree{kind: dict, at: at}
	for _, v := range values {
		key := r.scalar(v.Key)
		t.entries = append(t.entries, entry{key.text, key.at, r.value(v.Value, key.at, depth+1)})
	}
	return t
}

func (r *yamlReader) list(values []ast.Node, at place, depth int) *tree {
	t := &tree{kind: list, at: at}
	for _, v := range values {
		here := at
		if v != nil {
			here = r.first(v)
		}
		t.items = append(t.items, r.value(v, here, depth+1))
	}
	return t
}

func (r *yamlReader) scalar(n ast.Node) *tree {
	tk := n.GetToken()
	t := &tree{kind: plain, text: tk.Value, at: r.place(tk)}
	switch n := n.(type) {
	case *ast.LiteralNode:
		t.kind, t.text = quoted, n.Value.Value
	case *ast.StringNode:
		t.text = n.Value
		if tk.Type == token.SingleQuoteType || tk.Type == token.DoubleQuoteType {
			t.kind = quoted
		}
	case *ast.NullNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
	default:
		r.fault(n, "expected a map, a list or a plain value, not a YAML %s", n.Type())
	}
	return t
}

// first is where a node begins; that of a map is its first key.
func (r *yamlReader) first(n ast.Node) place {
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 && !m.IsFlowStyle {
			return r.first(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return r.first(m.Key)
	}
	return r.place(n.GetToken())
}

func (s source) place(tk *token.Token) place {
	if tk == nil || tk.Position == nil {
		return place{s, 1, 1}
	}
	return place{s, max(1, tk.Position.Line), max(1, tk.Position.Column)}
}
