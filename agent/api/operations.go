package api

import (
	"net/http"
	"slices"
	"strings"

	"grapevine/gateway"
	"grapevine/gateway/spec"
)

// operations is the table of everything that the API does.
func operations(withMetrics bool) []operation {
	ops := slices.Concat(keyOperations(), nodeOperations(), clusterOperations(), instanceOperations(), maintenanceOperations(), memberOperations(), voterOperations(),
		recoveryOperations(), admissionOperations())
	for i := range ops {
		ops[i].params = append(ops[i].params, nodeParam)
	}
	ops = append(ops, leaseOperations()...) // of this node alone: a lease is a connection with its agent
	if withMetrics {
		ops = append(ops, operation{
			name: "metrics", method: http.MethodGet, path: "/metrics", serve: (*API).metrics,
			summary: "The node's metrics",
			text:    "In the text format of Prometheus, and others that it asks for. docs/reference/metrics.md names them.",
			params:  []param{{name: "name[]", text: "a metric to keep, may be repeated; all by default", repeated: true}},
			answers: []answer{{status: 200, text: "the metrics", media: "text/plain"}},
		})
	}
	return append(ops, probeOperations()...)
}

func keyOperations() []operation {
	return []operation{
		{
			name: "getKey", method: http.MethodGet, path: "/v1/kv" + keySuffix, serve: (*API).get,
			summary: "Read a value",
			text:    "Answers with the value as it is stored, and its revision as the ETag.",
			params:  []param{detailParam, atParam, consistencyParam, atLeastParam, timeoutParam},
			answers: []answer{
				{status: 200, text: "the value; with ?detail=1 an envelope", document: Envelope{}},
				badRequest,
				{status: 404, text: "not_found: the key is not there", document: Problem{}},
				compacted, noQuorum, behind,
			},
		},
		{
			name: "putKey", method: http.MethodPut, path: "/v1/kv" + keySuffix, serve: (*API).put,
			summary: "Write a value",
			text: "Under gateway/ the value is checked, brought into its canonical form and tried against the whole configuration before it is written. " +
				"Any other key takes any bytes; " + typeBytes + " is for these alone.",
			params:  append(writeParams(), ifMatchParam, ifNoneMatchParam),
			body:    &body{types: []string{typeJSON, typeYAML, typeShorthand, typeBytes}, limit: maxValueBody},
			answers: writeAnswers(Written{}, conflicting, tooLarge),
		},
		{
			name: "patchKey", method: http.MethodPatch, path: "/v1/kv" + keySuffix, serve: (*API).patch,
			summary: "Change a part of a value",
			text:    "The body is a JSON merge patch (RFC 7396): null deletes a field, an object merges, anything else replaces.",
			params:  append(writeParams(), ifMatchParam, ifNoneMatchParam),
			body:    &body{types: []string{typePatch, typeJSON}, limit: maxValueBody},
			answers: writeAnswers(Written{}, keyMissing, conflicting, tooLarge),
		},
		{
			name: "deleteKey", method: http.MethodDelete, path: "/v1/kv" + keySuffix, serve: (*API).del,
			summary: "Delete a key or a prefix",
			text:    "A prefix covers the key itself and everything below it: a/b covers a/b and a/b/c, never a/bc. a/b/ is only what is below.",
			params:  append(writeParams(), recurseParam, ifMatchParam, ifNoneMatchParam),
			answers: writeAnswers(Deleted{}, keyMissing, conflicting),
		},
		{
			name: "listKeys", method: http.MethodGet, path: "/v1/kv", serve: (*API).list,
			summary: "Read a prefix",
			text:    "All of it is of one revision, from which a watch can continue without a gap.",
			params:  []param{prefixParam, {name: "keys", text: "1: the keys alone", values: switchWords()}, atParam, consistencyParam, atLeastParam, timeoutParam},
			answers: []answer{{status: 200, text: "the entries, or the keys", document: Listing{}}, badRequest, compacted, noQuorum, behind},
		},
		{
			name: "transact", method: http.MethodPost, path: "/v1/txn", serve: (*API).txn,
			summary: "Write several keys, all or nothing",
			text:    "When every compare holds, then is done, else else. One revision holds all of it.",
			params:  writeParams(),
			body:    &body{types: []string{typeJSON}, document: Txn{}, limit: maxBatchBody},
			answers: writeAnswers(Committed{}, tooLarge),
		},
		{
			name: "watch", method: http.MethodGet, path: "/v1/watch", serve: (*API).watch, endless: true,
			summary: "Follow the changes of a prefix",
			text: "Server-sent events: put and delete (Change), sync (Sync: all until this revision is sent), reset (Reset: the history does not " +
				"lead on from where the client was; read the prefix anew) and end (End: the agent ends the stream). The id of an event is the " +
				"revision to resume after; only the last event of a revision has it. A comment comes after 15 s of silence. With ?state=1 the stream " +
				"begins with state (State), a put for each key that is there, ephemeral ones included, and sync; all of one moment, and the changes that " +
				"follow are those since. So who follows both needs no other request, and asks again when the stream ends.",
			params: []param{
				prefixParam,
				{name: "since", text: "the revision to begin after; the present one by default"},
				{name: "Last-Event-ID", header: true, text: "the same, and stronger"},
				{name: "state", text: "1: begin with all that is there, wherever the client was", values: switchWords()},
			},
			answers: []answer{
				{status: 200, text: "the stream", media: "text/event-stream"},
				badRequest,
				{status: 503, text: "not_ready: with ?state=1, from a node that has just started and may not know the present state", document: Problem{}},
			},
		},
	}
}

func nodeOperations() []operation {
	return []operation{
		{
			name: "validate", method: http.MethodPost, path: "/v1/validate", serve: (*API).validate,
			summary: "Check values without writing them",
			text:    "Each by itself, and those that are good together, on top of the present configuration.",
			body:    &body{types: []string{typeJSON}, document: Validation{}, limit: maxBatchBody},
			answers: []answer{{status: 200, text: "what is wrong with them", document: Verdict{}}, badRequest, tooLarge},
		},
		{
			name: "status", method: http.MethodGet, path: "/v1/status", serve: (*API).status,
			summary: "What the node knows of itself",
			answers: []answer{{status: 200, text: "the status", document: Status{}}},
		},
		{
			name: "listRoutes", gateway: true, method: http.MethodGet, path: "/v1/routes", serve: (*API).routes,
			summary: "The routes of the live table",
			text:    "Those that are live, shadowed or invalid, from every source.",
			answers: []answer{{status: 200, text: "the routes", document: RouteList{}}},
		},
		{
			name: "explainRoutes", gateway: true, method: http.MethodGet, path: "/v1/routes/explain", serve: (*API).explain,
			summary: "Why a request goes where it goes",
			text: "Puts a request that nobody sent to the live table: which route takes it and why, what would be forwarded, or with what the " +
				"gateway itself would answer. Nothing is sent to a backend. It is 200 also where no route takes the request; route is then empty.",
			params: []param{
				{name: "url", text: "an absolute URL, or a path with its query for any host", required: true},
				{name: "method", text: "the request's method; GET by default"},
				{name: "header", text: "a header line as Name: value, may be repeated; Host is part of the url", repeated: true},
				{name: "client", text: "the client's IP address; without it no condition on clients holds"},
			},
			answers: []answer{
				{status: 200, text: "what would happen", document: gateway.Explanation{}},
				{status: 400, text: "bad_request: a parameter can't be meant, which detail names with its value", document: Problem{}},
			},
		},
		{
			name: "lintRoutes", gateway: true, method: http.MethodGet, path: "/v1/routes/lint", serve: (*API).lint,
			summary: "What works, and is probably not meant",
			text:    "Of the live table: a route that another one hides entirely, a cluster that no route uses, and the like.",
			answers: []answer{{status: 200, text: "the notices, none of which keeps anything from being served", document: Lint{}}},
		},
		{
			name: "describe", method: http.MethodGet, path: "/v1/openapi.json", serve: (*API).describe,
			summary: "This description",
			answers: []answer{{status: 200, text: "an OpenAPI 3.1 document", media: typeJSON}},
		},
	}
}

// probeOperations are the names that gateways and orchestrators use, as on the proxy's listener.
func probeOperations() []operation {
	var ops []operation
	paths := spec.DefaultProbePaths()
	for _, path := range paths.Live {
		ops = append(ops, operation{
			name: probeName(path), method: http.MethodGet, path: string(path), serve: (*API).alive,
			summary: "Is the process alive",
			answers: []answer{{status: 200, text: "it is", document: Health{}}},
		})
	}
	for _, path := range append(paths.Ready, paths.Startup...) {
		ops = append(ops, operation{
			name: probeName(path), method: http.MethodGet, path: string(path), serve: (*API).ready,
			summary: "Does the node take traffic",
			answers: []answer{
				{status: 200, text: "it does", document: Health{}},
				{status: 503, text: "not_ready: it does not, and why", document: Problem{}},
			},
		})
	}
	return ops
}

// probeName makes healthLive of /health/live.
func probeName(path spec.Prefix) string {
	parts := strings.Split(strings.TrimPrefix(string(path), "/"), "/")
	for i, part := range parts[1:] {
		parts[i+1] = strings.ToUpper(part[:1]) + part[1:]
	}
	return strings.Join(parts, "")
}
