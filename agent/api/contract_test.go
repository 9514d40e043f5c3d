package api_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// description is what the test reads of /v1/openapi.json.
type description struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string
		RequestBody *struct{ Content map[string]any }
		Responses   map[string]struct {
			Content map[string]struct{ Schema map[string]any }
		}
	}
}

// contract is one documented answer: what was done before, and the request that gets it.
type contract struct {
	setup  func(*setup)
	before func(*node)
	send   func(*node) reply
}

// request is a contract of a request alone.
func request(method, path, body string, headers ...string) contract {
	return contract{send: func(n *node) reply { return n.tcp.do(method, path, body, headers...) }}
}

// on adds what there is before.
func (c contract) on(before func(*node)) contract {
	c.before = before
	return c
}

// with changes what the API is made of.
func (c contract) with(change func(*setup)) contract {
	c.setup = change
	return c
}

func stored(n *node) { n.socket.do("PUT", "/v1/kv/app/x", "{}") }

func forgetful(s *setup) { s.kv.HistoryRevs = 1 }

func overwritten(n *node) {
	for range 4 {
		stored(n)
	}
}

func slow(s *setup) { s.idle, s.WaitBound = true, 1 }

func failing(err error) func(*setup) {
	return func(s *setup) { s.Log = refusing{err} }
}

// referred is a cluster that a route needs.
func referred(n *node) {
	n.socket.do("PUT", "/v1/kv/gateway/clusters/shop", `{"destinations":{"a":"http://127.0.0.1:5010"}}`)
	n.socket.do("PUT", "/v1/kv/gateway/routes/shop", `{"path":"/shop","cluster":"shop"}`)
}

// guarded is a cluster with a breaker.
func guarded(n *node) {
	n.socket.do("PUT", "/v1/kv/gateway/clusters/shop", `{"destinations":{"a":"http://127.0.0.1:5010"},"resilience":{"circuitBreaker":{}}}`)
}

// shadowing is a route that another one hides entirely.
func shadowing(n *node) {
	n.socket.do("PUT", "/v1/kv/gateway/routes/first", `{"path":"/x/{**rest}","order":-1,"backends":["http://127.0.0.1:5010"]}`)
	n.socket.do("PUT", "/v1/kv/gateway/routes/second", `{"path":"/x/{**rest}","backends":["http://127.0.0.1:5010"]}`)
}

// contracts get every answer that the description has, by operation and status. 403 and 415 are the door's, and tried
// for all operations together.
func contracts() map[string]contract {
	large := `"` + strings.Repeat("a", kv.MaxValueBytes) + `"`
	huge := `{"values":{"a":"` + strings.Repeat("a", 17<<20) + `"}}`
	txn := `{"then":[{"put":{"key":"app/x","value":1}}]}`
	all := map[string]contract{
		"getKey 200": request("GET", "/v1/kv/app/x?detail=1", "").on(stored),
		"getKey 400": request("GET", "/v1/kv/a//b", ""),
		"getKey 404": request("GET", "/v1/kv/app/x", ""),
		"getKey 410": request("GET", "/v1/kv/app/x?at=1", "").with(forgetful).on(overwritten),

		"putKey 200": request("PUT", "/v1/kv/app/x", "1"),
		"putKey 202": request("PUT", "/v1/kv/app/x", "1").with(slow),
		"putKey 400": request("PUT", "/v1/kv/app/x?dry", "1"),
		"putKey 412": request("PUT", "/v1/kv/app/x", "1", "If-Match: *"),
		"putKey 413": request("PUT", "/v1/kv/app/x", large),
		"putKey 422": request("PUT", "/v1/kv/gateway/routes/x", "{}"),
		"putKey 503": request("PUT", "/v1/kv/app/x", "1").with(failing(kv.ErrReadOnly)),
		"putKey 507": request("PUT", "/v1/kv/app/x", "1").with(failing(kv.ErrDiskFull)),

		"patchKey 200": request("PATCH", "/v1/kv/app/x", "{}").on(stored),
		"patchKey 202": request("PATCH", "/v1/kv/app/x", "{}").with(slow).on(stored),
		"patchKey 400": request("PATCH", "/v1/kv/app/x", "{"),
		"patchKey 404": request("PATCH", "/v1/kv/app/x", "{}"),
		"patchKey 412": request("PATCH", "/v1/kv/app/x", "{}", "If-None-Match: *").on(stored),
		"patchKey 413": request("PATCH", "/v1/kv/app/x", large),
		"patchKey 422": request("PATCH", "/v1/kv/gateway/clusters/shop", `{"destinations":{"a":"?"}}`).on(referred),

		"deleteKey 200": request("DELETE", "/v1/kv/app/x", "").on(stored),
		"deleteKey 202": request("DELETE", "/v1/kv/app/x", "").with(slow).on(stored),
		"deleteKey 400": request("DELETE", "/v1/kv/?recurse=1", ""),
		"deleteKey 404": request("DELETE", "/v1/kv/app/x", ""),
		"deleteKey 412": request("DELETE", "/v1/kv/app/x", "", `If-Match: "1.9"`).on(stored),
		"deleteKey 422": request("DELETE", "/v1/kv/gateway/clusters/shop", "").on(referred),
		"deleteKey 503": request("DELETE", "/v1/kv/app/x", "").with(failing(kv.ErrReadOnly)),
		"deleteKey 507": request("DELETE", "/v1/kv/app/x", "").with(failing(kv.ErrDiskFull)),

		"listKeys 200": request("GET", "/v1/kv", "").on(stored),
		"listKeys 400": request("GET", "/v1/kv?prefix=a//b", ""),
		"listKeys 410": request("GET", "/v1/kv?at=1", "").with(forgetful).on(overwritten),

		"transact 200": request("POST", "/v1/txn", txn),
		"transact 202": request("POST", "/v1/txn", txn).with(slow),
		"transact 400": request("POST", "/v1/txn", "{"),
		"transact 413": request("POST", "/v1/txn", huge),
		"transact 422": request("POST", "/v1/txn", `{"then":[{"put":{"key":"gateway/routes/x","value":{}}}]}`),
		"transact 503": request("POST", "/v1/txn", txn).with(failing(kv.ErrReadOnly)),
		"transact 507": request("POST", "/v1/txn", txn).with(failing(kv.ErrDiskFull)),

		"watch 200": request("GET", "/v1/watch?since=1", "").with(forgetful).on(overwritten), // it ends by itself
		"watch 400": request("GET", "/v1/watch?since=x", ""),
		"watch 503": request("GET", "/v1/watch?state=1", "").with(func(s *setup) { s.Waiting = func() string { return "it has just started" } }),

		"validate 200": request("POST", "/v1/validate", `{"values":{"gateway/routes/x":{"path":"x"}}}`),
		"validate 400": request("POST", "/v1/validate", "{"),
		"validate 413": request("POST", "/v1/validate", huge),

		"listClusters 200": request("GET", "/v1/clusters", "").on(referred),
		"getCluster 200":   request("GET", "/v1/clusters/shop", "").on(referred),
		"getCluster 404":   request("GET", "/v1/clusters/shop", ""),
		"resetBreaker 200": request("POST", "/v1/clusters/reset-breaker", `{"cluster":"shop"}`).on(guarded),
		"resetBreaker 400": request("POST", "/v1/clusters/reset-breaker", `{}`),
		"resetBreaker 404": request("POST", "/v1/clusters/reset-breaker", `{"cluster":"shop"}`).on(referred),

		"status 200":        request("GET", "/v1/status", "").on(referred),
		"listRoutes 200":    request("GET", "/v1/routes", "").on(referred),
		"explainRoutes 200": request("GET", "/v1/routes/explain?url=http://h/shop/1%3Fx&header=X-A:+1&client=10.0.0.1", "").on(referred),
		"explainRoutes 400": request("GET", "/v1/routes/explain?url=", ""),
		"lintRoutes 200":    request("GET", "/v1/routes/lint", "").on(shadowing),
		"describe 200":      request("GET", "/v1/openapi.json", ""),
		"metrics 200":       request("GET", "/metrics", ""),
	}
	for status, err := range map[string]error{"503": kv.ErrReadOnly, "507": kv.ErrDiskFull} {
		// The value has to be there, and no write can put it there: it is read from a store that was written before.
		all["patchKey "+status] = request("PATCH", "/v1/kv/app/x", "{}").with(func(s *setup) {
			s.Log, s.Store = refusing{err}, storeWith("app/x")
		})
	}
	maps.Copy(all, clusterContracts())
	maps.Copy(all, announceContracts())
	maps.Copy(all, maintenanceContracts())
	paths := spec.DefaultProbePaths()
	for _, path := range paths.Live {
		all[probeID(path)+" 200"] = request("GET", string(path), "")
	}
	for _, path := range append(paths.Ready, paths.Startup...) {
		all[probeID(path)+" 200"] = request("GET", string(path), "")
		all[probeID(path)+" 503"] = request("GET", string(path), "").on(func(n *node) { n.gateway.Drain() })
	}
	return all
}

// probeID is the operation id of a probe's path.
func probeID(path spec.Prefix) string {
	first, second, _ := strings.Cut(strings.TrimPrefix(string(path), "/"), "/")
	if second == "" {
		return first
	}
	return first + strings.ToUpper(second[:1]) + second[1:]
}

// storeWith is a store in memory that has a key.
func storeWith(key kv.Key) *kv.Store {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		panic(err)
	}
	commit, _, err := store.View().Resolve(kv.Txn{Then: []kv.Op{kv.Put(key, []byte("{}"))}})
	if err == nil {
		err = store.Merge(commit)
	}
	if err != nil {
		panic(err)
	}
	return store
}

func TestDescriptionIsTheContract(t *testing.T) {
	n := startNode(t)
	text := n.tcp.do("GET", "/v1/openapi.json", "").body
	d := want[description](t, reply{status: 200, body: text}, 200)
	if d.OpenAPI != "3.1.0" {
		t.Errorf("version %q", d.OpenAPI)
	}
	schemas := jsonschema.NewCompiler()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schemas.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	contracts := contracts()
	for path, operations := range d.Paths {
		for method, operation := range operations {
			for status, response := range operation.Responses {
				if status == "default" || status == "403" || status == "415" {
					continue
				}
				name := operation.OperationID + " " + status
				c, ok := contracts[name]
				if !ok {
					t.Errorf("%s: no request gets it", name)
					continue
				}
				delete(contracts, name)
				at := fmt.Sprintf("openapi.json#/paths/%s/%s/responses/%s", strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path), method, status)
				media := slices.Collect(maps.Keys(response.Content))
				t.Run(name, func(t *testing.T) { c.check(t, status, media, schemas, at) })
			}
		}
	}
	for name := range contracts {
		t.Errorf("%s is not in the description", name)
	}
}

// check sends the request and holds the answer against the description.
func (c contract) check(t *testing.T, status string, media []string, schemas *jsonschema.Compiler, at string) {
	var changes []func(*setup)
	if c.setup != nil {
		changes = append(changes, c.setup)
	}
	n := startNode(t, changes...)
	if c.before != nil {
		c.before(n)
	}
	r := c.send(n)
	if strconv.Itoa(r.status) != status {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	if r.status == 204 { // which has no document
		return
	}
	got, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	if !slices.Contains(media, got) {
		t.Fatalf("content type %q, the description has %q", got, media)
	}
	if !strings.HasSuffix(got, "json") || got == "application/x-ndjson" {
		return
	}
	schema, err := schemas.Compile(at + "/content/" + strings.ReplaceAll(got, "/", "~1") + "/schema")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(r.body)))
	if err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	if err := schema.Validate(document); err != nil {
		t.Errorf("%s: %v", r.body, err)
	}
}

// Every operation turns away foreign requests, and every one with a body those that a form could send.
func TestDoorGuardsEveryOperation(t *testing.T) {
	n := startNode(t)
	d := want[description](t, n.tcp.do("GET", "/v1/openapi.json", ""), 200)
	for path, operations := range d.Paths {
		for method, operation := range operations {
			method, path := strings.ToUpper(method), strings.Replace(path, "{key}", "app/x", 1)
			if operation.Responses["403"].Content == nil {
				t.Errorf("%s does not document 403", operation.OperationID)
			}
			problem(t, n.tcp.do(method, path, "{}", "Host: evil.example"), 403, "forbidden_host")
			problem(t, n.tcp.do(method, path, "{}", "Origin: http://evil.example"), 403, "forbidden_origin")
			if operation.RequestBody == nil {
				continue
			}
			if operation.Responses["415"].Content == nil {
				t.Errorf("%s does not document 415", operation.OperationID)
			}
			problem(t, n.tcp.do(method, path, "{}", "Content-Type: text/plain"), 415, "unsupported_content_type")
		}
	}
	if rev := n.store.View().Rev(); rev.Rev != 0 {
		t.Errorf("revision %s: a foreign request wrote", rev)
	}
}
