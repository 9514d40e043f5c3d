package spec

import (
	"fmt"
	"reflect"
	"slices"
)

// shape is one form of value and the name of its definition in the schema.
type shape struct {
	name    string
	example any
	about   string
	keys    []string // the keys that have it
}

// shapes are all forms of values, in the order of the keys that have them.
func shapes() (all []shape) {
	add := func(example any, about, key string) {
		name := reflect.TypeOf(example).Name()
		if i := slices.IndexFunc(all, func(s shape) bool { return s.name == name }); i >= 0 {
			all[i].keys = append(all[i].keys, key)
			return
		}
		all = append(all, shape{name, example, about, []string{key}})
	}
	for _, k := range kinds {
		if k.shape != nil {
			add(k.shape, k.about, k.form())
		}
	}
	for _, s := range sections {
		if s.shape != nil {
			add(s.shape, s.about, fmt.Sprintf("%s/config/%s", root, s.name))
		}
	}
	return all
}
