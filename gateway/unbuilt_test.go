package gateway

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grapevine/gateway/spec"
)

//go:generate go test -run ^TestUnbuiltPageIsCurrent$ -update

var update = flag.Bool("update", false, "write the reference page anew")

const unbuiltPage = "../docs/reference/not-yet.md"

// The page says what this version refuses.
func TestUnbuiltPageIsCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Not in this version\n\nMade from the code by `make generate`. These settings have their shape already, and this version does not act on them.\n")
	b.WriteString("\nRefused by name when they are written, in a file or as a key:\n\n")
	writeSettings(&b, "gateway/routes/{routeId}", refusedInRoute)
	writeSettings(&b, "gateway/clusters/{clusterId}", refusedInCluster)
	fmt.Fprintf(&b, "- every key under `gateway/` but `gateway/routes/`, `gateway/clusters/`, `gateway/maintenance`, and of `gateway/config/` the sections\n  `%s`\n",
		strings.Join(slices.Sorted(maps.Keys(builtSections)), "`, `"))
	if *update {
		if err := os.WriteFile(unbuiltPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(unbuiltPage); err != nil || string(now) != b.String() {
		t.Errorf("%s is out of date (%v); run make generate", unbuiltPage, err)
	}
}

func writeSettings[T any](b *strings.Builder, key string, settings []setting[T]) {
	for _, s := range settings {
		fmt.Fprintf(b, "- `%s`: `%s`\n", key, s.field)
	}
}

// Every field of a route and a cluster is served, or named as not built: a new
// one can't be forgotten.
func TestEveryFieldIsServedOrRefused(t *testing.T) {
	served := map[string]bool{}
	for field := range strings.FieldsSeq(`schema description labels routeId enabled order path pathRegex caseInsensitive pathPolicy hosts methods headers query clients
		backends cluster redirect respond rewrite transforms pathPrefix
		pathRemovePrefix allowAnonymous timeout idleTimeout
		split splitOn limits retry affinity destinations loadBalancing hashOn resilience maxConnections maxConcurrent health allowDegraded preferRegion panicPercent slowStart`) {
		served[field] = true
	}
	check := func(shape reflect.Type, named map[string]bool) {
		for _, field := range reflect.VisibleFields(shape) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && name != "-" && !served[name] && !named[name] {
				t.Errorf("%s.%s is neither served nor refused", shape.Name(), name)
			}
		}
	}
	check(reflect.TypeFor[spec.Route](), fieldsOf(refusedInRoute))
	check(reflect.TypeFor[spec.Cluster](), fieldsOf(refusedInCluster))
}

func fieldsOf[T any](settings []setting[T]) map[string]bool {
	fields := map[string]bool{}
	for _, s := range settings {
		fields[s.field] = true
	}
	return fields
}
