package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"

	"grapevine/gateway/spec"
)

const (
	formatTable = "table" // for people; the others are for programs, and their shapes are stable
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatJSONL = "jsonl" // one compact JSON value a line
	formatName  = "name"  // the bare names of the things, one a line
)

var formats = []string{formatTable, formatJSON, formatYAML, formatJSONL, formatName}

// output is where the data of a command goes, and how.
type output struct {
	w      io.Writer
	format string
	style  style
}

// printList writes items in the format asked for: all of them as one JSON or YAML array, or one by one. Name is what the
// name format says of an item, and people prints for a person.
func printList[T any](o output, items []T, name func(T) string, people func(io.Writer) error) error {
	switch o.format {
	case formatTable:
		return people(o.w)
	case formatJSON, formatYAML:
		return o.document(append([]T{}, items...)) // never null
	}
	for _, item := range items {
		if err := o.line(item, name(item)); err != nil {
			return err
		}
	}
	return nil
}

// printOne is printList for a single thing.
func printOne[T any](o output, item T, name string, people func(io.Writer) error) error {
	switch o.format {
	case formatTable:
		return people(o.w)
	case formatJSON, formatYAML:
		return o.document(item)
	}
	return o.line(item, name)
}

// printFaults prints a fault a line.
func printFaults(o output, faults []spec.Fault) error {
	name := func(f spec.Fault) string { return f.Key }
	return printList(o, faults, name, func(w io.Writer) error {
		for _, fault := range faults {
			if _, err := fmt.Fprintln(w, printable(fault.Error())); err != nil {
				return err
			}
		}
		return nil
	})
}

// next writes one item of a stream that may never end: JSON on one line, or a YAML document.
func (o output) next(item any, name string) error {
	if o.format != formatYAML {
		return o.line(item, name)
	}
	if _, err := io.WriteString(o.w, "---\n"); err != nil {
		return err
	}
	return o.document(item)
}

// document writes v as one indented JSON or YAML document.
func (o output) document(v any) error {
	text, err := encode(v, "  ")
	if err == nil && o.format == formatYAML {
		text, err = yaml.JSONToYAML(text)
	}
	return o.write(text, err)
}

// line writes an item as one line of a list.
func (o output) line(item any, name string) error {
	if o.format == formatName {
		_, err := fmt.Fprintln(o.w, name)
		return err
	}
	text, err := encode(item, "")
	return o.write(text, err)
}

func (o output) write(text []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = o.w.Write(text)
	return err
}

// encode writes JSON for people: < and & as they are.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}
