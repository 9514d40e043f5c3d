package spec

import "encoding/json"

// Version is the version of the shapes in this package, the only one that a
// value's schema field may name.
const Version = 1

// Meta is what every value may carry beside its own fields.
type Meta struct {
	Schema      int               `json:"schema,omitzero" range:"1..1" doc:"version of the shape"`
	Description string            `json:"description,omitzero" doc:"free text for people"`
	Labels      map[string]string `json:"labels,omitzero" doc:"free names and values for tools"`

	// Annotations holds the fields whose name starts with x-, as canonical JSON.
	Annotations map[string]json.RawMessage `json:"-"`
}
