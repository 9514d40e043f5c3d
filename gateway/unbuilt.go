package gateway

import (
	"grapevine/gateway/spec"
)

// What this version reads but does not do. A setting that would change what a
// client may do or what a backend sees is refused by name, never ignored.

// setting is one field of a shape and whether a value sets it.
type setting[T any] struct {
	field string
	isSet func(*T) bool
}

const refusal = "this version does not do that yet"

var refusedInRoute = []setting[spec.Route]{
	{"type", func(r *spec.Route) bool { return r.Type == "static" }},
	{"static", func(r *spec.Route) bool { return r.Static != nil }},
	{"mirror", func(r *spec.Route) bool { return r.Mirror != nil }},
	{"requireAuth", func(r *spec.Route) bool { return r.RequireAuth }},
	{"auth", func(r *spec.Route) bool { return r.Auth != nil }},
	{"forwardAuthorization", func(r *spec.Route) bool { return r.ForwardAuthorization != nil && !*r.ForwardAuthorization }},
	{"limits.rate", func(r *spec.Route) bool { return r.Limits != nil && r.Limits.Rate != "" }},
	{"limits.maxLongLived", func(r *spec.Route) bool { return r.Limits != nil && r.Limits.MaxLongLived > 0 }},
	{"cors", func(r *spec.Route) bool { return r.CORS != nil }},
	{"compression", func(r *spec.Route) bool { return r.Compression != nil }},
}

var refusedInCluster = []setting[spec.Cluster]{
	{"tls", func(c *spec.Cluster) bool { return c.TLS != nil }},
	{"http2", func(c *spec.Cluster) bool { return c.HTTP2 != "" && c.HTTP2 != "auto" }},
}

// builtSections are the sections under gateway/config/ that this version acts
// on.
var builtSections = map[string]bool{"timeouts": true, "ready": true, "headers": true, "logging": true, "announce": true}

// settingsIn gives a fault with problem for each setting that value sets.
func settingsIn[T any](key string, value *T, settings []setting[T], problem string) spec.Faults {
	var faults spec.Faults
	for _, s := range settings {
		if s.isSet(value) {
			faults = append(faults, spec.Fault{Key: key, Field: s.field, Problem: problem})
		}
	}
	return faults
}
