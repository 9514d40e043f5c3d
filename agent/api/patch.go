package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// patch merges a JSON merge patch (RFC 7396) into a value that is there.
func (a *API) patch(c *call) error {
	key, err := writable(c.rest)
	if err != nil {
		return err
	}
	data, err := c.read(maxValueBody)
	if err != nil {
		return err
	}
	patch, err := neutral(data)
	if err != nil {
		return fail(codeBadRequest, "body: %v", err)
	}
	for {
		done, err := a.patchOnce(c, key, patch)
		if done || err != nil {
			return err
		}
	}
}

// patchOnce reports false when somebody else wrote the key meanwhile. Each such round means that another write came
// through, so together they end; a condition of the client's ends it at once.
func (a *API) patchOnce(c *call, key kv.Key, patch any) (bool, error) {
	view := a.Store.View()
	entry, ok := view.Get(key)
	if !ok {
		return false, missing(key, view)
	}
	compares, err := conditions(c.r.Header, key, view.Rev().Epoch)
	if err != nil {
		return false, err
	}
	value, err := merged(entry, patch)
	if err != nil {
		return false, err
	}
	read := kv.Compare{Key: key, Target: kv.TargetModRev, Op: kv.Equal, Rev: entry.ModRev}
	err = a.putValue(c, key, value, append(compares, read))
	if f := failureOf(err); f != nil && f.code == codeConflict && len(compares) == 0 && c.r.Context().Err() == nil {
		return false, nil
	}
	return true, err
}

// merged is the entry's value with the patch in it, checked as if it had been written so.
func merged(entry kv.Entry, patch any) (spec.Decoded, error) {
	old, err := neutral(entry.Value)
	if err != nil {
		return spec.Decoded{}, spec.Faults{{Key: string(entry.Key), Problem: "the value is not JSON, so nothing can be merged into it"}}
	}
	// The stored value has its names by the same rule, so a patch may use any spelling.
	patch, err = spec.CanonicalNames(string(entry.Key), patch)
	if err != nil {
		return spec.Decoded{}, err
	}
	data, err := json.Marshal(mergePatch(old, patch))
	if err != nil {
		return spec.Decoded{}, err
	}
	return spec.Decode(string(entry.Key), data, spec.FormJSON)
}

// neutral decodes JSON, keeps numbers as they are written, and refuses a name that is given twice.
func neutral(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := neutralValue(dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON document")
	}
	return v, nil
}

func neutralValue(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return neutralObject(dec)
	case json.Delim('['):
		return neutralList(dec)
	}
	return token, nil
}

func neutralObject(dec *json.Decoder) (any, error) {
	object := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // encoding/json gives nothing else here
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("%q is given twice", name)
		}
		if object[name], err = neutralValue(dec); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token() // the closing brace
	return object, err
}

func neutralList(dec *json.Decoder) (any, error) {
	list := []any{}
	for dec.More() {
		item, err := neutralValue(dec)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	_, err := dec.Token() // the closing bracket
	return list, err
}

// mergePatch is the algorithm of RFC 7396 §2: null deletes, an object merges, all else replaces.
func mergePatch(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(object, name)
			continue
		}
		object[name] = mergePatch(object[name], change)
	}
	return object
}
