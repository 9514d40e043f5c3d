// Package api is the agent's HTTP API: keys, transactions, watches, and what the node knows of itself.
//
// One table (operations.go) holds every operation. The dispatcher, /v1/openapi.json, docs/reference/api.md and the
// contract test all read that table, so none of them can tell another story.
//
// There are three doors. The unix socket trusts whoever the file mode lets in. TCP trusts nobody: a browser can be made
// to send requests to loopback, so every request there must name a loopback Host, carry no foreign Origin, and label
// what it writes with a content type that no HTML form can send. The third is for the other nodes of the cluster: with
// ?node= an operator asks one node and another answers, but never a third.
//
// A write passes one line of checks: the key, the value, the compare, the trial compile of the whole table, the disk.
// Where one of them refuses, nothing was written, and the problem document says so.
//
// An API is safe for concurrent use.
package api
