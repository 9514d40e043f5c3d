package spec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// text decodes a value whose type has a syntax of its own. A bare number is
// taken only by those that are one.
func (d *decoder) text(n *tree, v reflect.Value, path string, f *field) {
	isNumber := n.kind == number && v.CanInt()
	if !isNumber && n.kind != quoted && n.kind != plain {
		d.fault(n, path, "expected text%s", insteadOf(n.kind))
		return
	}
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.text)); err != nil {
		d.fault(n, path, "%v", err)
		return
	}
	if v.CanInt() {
		d.within(n, float64(v.Int()), path, f)
	}
}

func insteadOf(k kind) string {
	if k == number || k == boolean {
		return ": put it in quotes"
	}
	return fmt.Sprintf(", not %s", k)
}

func (d *decoder) within(n *tree, value float64, path string, f *field) {
	if problem := f.bounds.problem(value); problem != "" {
		d.fault(n, path, "%s", problem)
	}
}

func (d *decoder) scalar(n *tree, v reflect.Value, path string, f *field) {
	switch v.Kind() {
	case reflect.String:
		d.string(n, v, path, f)
	case reflect.Bool:
		d.bool(n, v, path)
	case reflect.Int, reflect.Int64:
		d.int(n, v, path, f)
	case reflect.Float64:
		d.float(n, v, path, f)
	default:
		panic(fmt.Sprintf("spec: no decoding for a field of type %s", v.Type()))
	}
}

func (d *decoder) string(n *tree, v reflect.Value, path string, f *field) {
	switch {
	case n.kind != quoted && n.kind != plain:
		d.fault(n, path, "expected text%s", insteadOf(n.kind))
	case n.text == "" && f.required:
		d.fault(n, path, "must not be empty")
	case f.enum == nil:
		v.SetString(n.text)
	default:
		d.enum(n, v, path, f)
	}
}

func (d *decoder) enum(n *tree, v reflect.Value, path string, f *field) {
	for _, value := range f.enum {
		if fold(n.text) == fold(value) {
			v.SetString(value)
			return
		}
	}
	if n.text != "" {
		d.fault(n, path, "must be one of %s%s", strings.Join(f.enum, ", "), DidYouMean(n.text, slices.Values(f.enum)))
	}
}

func (d *decoder) bool(n *tree, v reflect.Value, path string) {
	truths := map[string]bool{"true": true, "false": false}
	if n.kind == plain {
		maps.Copy(truths, map[string]bool{"on": true, "off": false})
	}
	truth, ok := truths[n.text]
	if !ok || n.kind == quoted {
		d.fault(n, path, "must be true or false%s", onOff(n.kind))
		return
	}
	v.SetBool(truth)
}

func onOff(k kind) string {
	if k == plain {
		return ", on or off"
	}
	return unquote(k)
}

func unquote(k kind) string {
	if k == quoted {
		return ", without quotes"
	}
	return ""
}

func (d *decoder) int(n *tree, v reflect.Value, path string, f *field) {
	if !d.isNumber(n, path, "a whole number") {
		return
	}
	count, err := strconv.ParseInt(n.text, 10, 64)
	switch {
	case err != nil && strings.ContainsAny(n.text, ".eE"):
		d.fault(n, path, "must be a whole number, written in digits")
	case err != nil:
		d.fault(n, path, "is out of range")
	default:
		v.SetInt(count)
		d.within(n, float64(count), path, f)
	}
}

func (d *decoder) float(n *tree, v reflect.Value, path string, f *field) {
	if !d.isNumber(n, path, "a number") {
		return
	}
	value, err := strconv.ParseFloat(n.text, 64)
	if err != nil {
		d.fault(n, path, "is out of range")
		return
	}
	v.SetFloat(value)
	d.within(n, value, path, f)
}

// isNumber says whether a value is a number as JSON writes it: no hex, no
// underscores, no infinity.
func (d *decoder) isNumber(n *tree, path, what string) bool {
	if n.kind != quoted && isJSONNumber(n.text) {
		return true
	}
	d.fault(n, path, "must be %s%s", what, unquote(n.kind))
	return false
}

func isJSONNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}
