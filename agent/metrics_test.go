package agent

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

//go:generate go test -run ^TestMetricsReferenceIsCurrent$ -update

var update = flag.Bool("update", false, "write docs/reference/metrics.md anew")

const metricsReference = "../docs/reference/metrics.md"

// opened is an agent in memory that has begun nothing.
func opened(t *testing.T) *Agent {
	t.Helper()
	a := New(Config{Dev: true, HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0", Gossip: "127.0.0.1:0", Version: "0.0.1"}, io.Discard)
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.release(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestMetricsReferenceIsCurrent(t *testing.T) {
	want := referenceOf(opened(t).metrics.registry)
	if *update {
		if err := os.MkdirAll(filepath.Dir(metricsReference), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(metricsReference, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(metricsReference)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run go generate ./agent", metricsReference)
	}
}

const metricsHead = `# Metrics

<!-- Generated from the collectors by "go generate ./agent". Do not edit. -->

Each node serves its metrics at ` + "`/metrics`" + ` of the API, and with ` + "`--metrics ADDRESS`" + ` on a listener of their own. Series of a route or
a cluster end with it. Beside these there are the usual ` + "`go_...` and `process_...`" + `.

| metric | labels | |
|---|---|---|
`

// described matches how a prometheus.Desc prints, which has no other way to be read.
var described = regexp.MustCompile(`^Desc\{fqName: "(.*?)", help: "(.*?)", unit: ".*?", constLabels: \{(.*?)\}, variableLabels: \{(.*?)\}`)

func referenceOf(registry *prometheus.Registry) []byte {
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	var rows []string
	for desc := range descs {
		m := described.FindStringSubmatch(desc.String())
		if m == nil {
			panic("client_golang prints descriptions in another way: " + desc.String())
		}
		if strings.HasPrefix(m[1], "grapevine_") {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", m[1], labels(m[3], m[4]), m[2]))
		}
	}
	slices.Sort(rows)
	return []byte(metricsHead + strings.Join(rows, ""))
}

// labels are the names of constant labels, as name="value", and of variable ones.
func labels(constant, variable string) string {
	var names []string
	for _, pair := range strings.Split(constant, ",") {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	names = append(names, strings.Split(variable, ",")...)
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return name == "" }), ", ")
}

func TestMetricsKeepTheConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(opened(t).metrics.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "grapevine_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestAPIRequestsAreCounted(t *testing.T) {
	a := opened(t)
	for _, path := range []string{"/v1/status", "/v1/status", "/nothing"} {
		request := httptest.NewRequest("GET", path, nil)
		request.Host = "localhost"
		a.doors["admin"].Handler.ServeHTTP(httptest.NewRecorder(), request)
	}
	err := testutil.GatherAndCompare(a.metrics.registry, strings.NewReader(`
# HELP grapevine_api_requests_total Requests of the API answered, by operation (empty: none has that path) and status.
# TYPE grapevine_api_requests_total counter
grapevine_api_requests_total{operation="",status="404"} 1
grapevine_api_requests_total{operation="status",status="200"} 2
`), "grapevine_api_requests_total")
	if err != nil {
		t.Error(err)
	}
}
