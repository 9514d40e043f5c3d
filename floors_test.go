// Package grapevine has no code of its own: its test holds the architecture.
package grapevine

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "grapevine"

// floors give each package its height. A package may import those that are
// lower, and no others of this module. See docs/design/floors.md.
var floors = map[string]int{
	"cli/agent":             60, // main
	"cli":                   50, // commands: words into API calls, results into tables
	"agent/agenttest":       45, // real nodes for tests
	"agent/cluster":         35, // one node's part in a cluster
	"agent":                 40, // builds one node, starts and stops it in order
	"agent/mux":             30, // many protocols out of one port
	"agent/announcing":      28, // the leases of announced instances, and the drain handshake
	"agent/identity":        29, // who is who: CA, certificates, tokens, joining
	"agent/api":             30, // the HTTP API over what it needs of the rest
	"gateway/follow":        21, // a gateway's source that follows an agent from outside
	"gateway":               20, // a view into a table, and serving it
	"kv/consensus":          20, // one order for operator writes
	"kv/gossip":             20, // membership, and every store converges
	"gateway/action":        14, // what a route does with a request and its response
	"gateway/http1":         13, // HTTP/1.1 messages, connections and exchanges
	"gateway/accesslog":     12, // a line a request
	"gateway/balance":       12, // which destination is next
	"gateway/health":        12, // which destinations can be used
	"gateway/breaker":       12, // stops asking what keeps failing
	"gateway/limit":         12, // how much at the same time, and how large
	"gateway/names":         12, // where the hosts of destinations are
	"gateway/routing":       12, // which route takes a request
	"gateway/stdhttp":       12, // exchanges over net/http
	"gateway/exchange":      10, // one request and its response
	"gateway/spec":          10, // shapes: decode, validate, all faults at once
	"kv":                    10, // which entry is newer; the winner on disk; views
	"gateway/hostile":       0,  // requests that servers read in different ways, for tests
	"kv/memnet":             5,  // a lossy network in memory, for tests
	"announce":              1,  // ties an instance to a connection's life; the standard library alone
	"announce/reach":        0,  // how an agent is found, and tried again
	"announce/announcetest": 0,  // an agent for the tests of services
	"examples":              2,  // tests of what the how-tos say
	"examples/gateway":      22, // a gateway of one's own that follows an agent
	"examples/go-service":   2,  // a service that announces itself
	"examples/demo":         0,  // three nodes to try things with, as processes
	"examples/echo":         0,  // a backend to try things with
	"bench":                 10, // this gateway beside its peers
	"bench/wire":            0,  // backend, relay and load client of the bench
	"bench/cluster":         40, // how long a change takes to be served everywhere
}

// doors are the only packages that may import a foreign library, so that each
// can be replaced behind one of them.
var doors = map[string][]string{
	"github.com/sony/gobreaker/v2":               {"gateway/breaker"},
	"github.com/hashicorp/memberlist":            {"kv/gossip"},
	"github.com/klauspost/compress":              {"kv/gossip"},
	"go.etcd.io/bbolt":                           {"kv", "kv/consensus"},
	"github.com/hashicorp/raft":                  {"kv/consensus"},
	"github.com/hashicorp/go-hclog":              {"kv/consensus"},
	"github.com/hashicorp/go-immutable-radix/v2": {"kv"},
	"github.com/benbjohnson/immutable":           {"gateway"},
	"github.com/urfave/cli/v2":                   {"cli"},
	"github.com/goccy/go-yaml":                   {"gateway/spec", "cli"},
	"github.com/prometheus/client_golang":        {"gateway", "agent", "agent/api"},
	"golang.org/x/net":                           {"gateway/names"},
	"golang.org/x/mod":                           {"gateway"},
	"github.com/coder/websocket":                 {"gateway", "cli/agent"}, // their tests
}

func TestFloors(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != "." || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || filepath.Dir(file) == ".":
			return nil
		}
		checkImports(t, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkImports(t *testing.T, file string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	pkg := path.Dir(filepath.ToSlash(file))
	floor, known := floors[pkg]
	if !known {
		t.Errorf("%s: package %s has no floor; give it one in floors_test.go", file, pkg)
		return
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		checkFloor(t, file, pkg, floor, imported)
		checkDoor(t, file, pkg, imported)
		checkStandard(t, file, pkg, imported)
	}
}

func checkFloor(t *testing.T, file, pkg string, floor int, imported string) {
	t.Helper()
	own, ok := strings.CutPrefix(imported, module+"/")
	if !ok || own == pkg { // a package's external test imports the package
		return
	}
	if other, known := floors[own]; known && other >= floor {
		t.Errorf("%s: %s (floor %d) may not import %s (floor %d)", file, pkg, floor, own, other)
	}
}

func checkDoor(t *testing.T, file, pkg, imported string) {
	t.Helper()
	for library, allowed := range doors {
		if imported != library && !strings.HasPrefix(imported, library+"/") {
			continue
		}
		for _, door := range allowed {
			if pkg == door {
				return
			}
		}
		t.Errorf("%s: only %s may import %s", file, strings.Join(allowed, ", "), library)
	}
}

// checkStandard holds what other teams import to the standard library, so that
// it brings nothing else into their builds.
func checkStandard(t *testing.T, file, pkg, imported string) {
	t.Helper()
	first, _, _ := strings.Cut(imported, "/")
	ours := first == module && imported != module+"/announce/reach"
	if (pkg == "announce" || pkg == "announce/reach") && !strings.HasSuffix(file, "_test.go") && (strings.Contains(first, ".") || ours) {
		t.Errorf("%s: %s depends on the standard library alone, and may not import %s", file, pkg, imported)
	}
}
