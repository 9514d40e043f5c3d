package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// value is what a person wants to store, and how it is written.
type value struct {
	data []byte
	form spec.Form
}

// readValue reads the VALUE of a command line. "-" is the standard input and "@file" a file, which hold JSON or YAML;
// anything else is the value itself.
func readValue(word string, stdin io.Reader) (value, error) {
	if word == "-" {
		return readDocument("the standard input", stdin)
	}
	name, isFile := strings.CutPrefix(word, "@")
	if !isFile {
		return value{data: []byte(word), form: argumentForm(word)}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return value{}, unreadable(name, err)
	}
	defer file.Close()
	return readDocument(name, file)
}

// argumentForm tells how an argument is written, as spec.FormAuto does.
func argumentForm(word string) spec.Form {
	word = strings.TrimSpace(word)
	switch {
	case word != "" && strings.Contains(`{["`, word[:1]):
		return spec.FormJSON
	case strings.Contains(word, "\n"):
		return spec.FormYAML
	}
	return spec.FormShorthand
}

// readDocument stops reading where a value is too large for any store.
func readDocument(name string, r io.Reader) (value, error) {
	data, err := io.ReadAll(io.LimitReader(r, kv.MaxValueBytes+1))
	if err != nil {
		return value{}, unreadable(name, err)
	}
	if len(data) > kv.MaxValueBytes {
		return value{}, invalid("%s: more than the %d bytes that a value may have", name, kv.MaxValueBytes)
	}
	return value{data: data, form: spec.FormYAML}, nil
}

func unreadable(name string, err error) *failure {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return &failure{code: exitInvalid, problem: name + ": " + err.Error(), cause: err}
}

// contentType says to the agent how the value is written. A free key holds any bytes.
func (v value) contentType(free bool) string {
	switch {
	case free:
		return "application/octet-stream"
	case v.form == spec.FormJSON:
		return "application/json"
	case v.form == spec.FormYAML:
		return "application/yaml"
	}
	return "application/x-grapevine-shorthand"
}
