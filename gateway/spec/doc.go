// Package spec knows the shapes of what is stored under gateway/ and of the
// static file: it decodes a value strictly, checks it, and reports every fault
// at once.
//
// Three input forms, one decoder. JSON, YAML and the shorthand of the command
// line each become the same small tree, in which every value knows its line and
// column; what a value means is then decided by one decoder that walks the tree
// along the Go types of this package. So a rule is written once, in one of
// three places:
//
//	a text with a syntax of its own   a type with UnmarshalText  Host, Address, Duration
//	a range, an enum, a must          a tag beside the field     range:"1..100" enum:"a|b" required:"true"
//	fields that depend on each other  a check method of a shape  Route, Cluster, TLS
//
// The same types and tags give the canonical form (Encode), the JSON Schema
// (Schema) and the reference page (Reference).
//
// The package holds no state and does no I/O; everything in it is safe for
// concurrent use.
package spec
