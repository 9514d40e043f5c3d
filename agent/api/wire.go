package api

import (
	"encoding/json"
	"time"

	"grapevine/gateway"
	"grapevine/gateway/spec"
)

// The documents that the API answers with and takes. A revision is always text, "epoch.rev", as in an ETag.

// Envelope is an entry with all that is known of it.
type Envelope struct {
	Key       string          `json:"key" doc:"the key"`
	Value     json.RawMessage `json:"value" doc:"the value; any JSON, or text as encoding says"`
	Encoding  Encoding        `json:"encoding,omitempty" doc:"how a value that is not JSON is held: text, or base64"`
	Class     string          `json:"class" doc:"operator (ordered, durable) or ephemeral (tied to a connection)"`
	ModRev    string          `json:"modRev" doc:"the revision of its last change"`
	CreateRev string          `json:"createRev" doc:"the revision that created it"`
	Version   uint64          `json:"version" doc:"how often it was written since it was created"`
	By        string          `json:"by" doc:"who wrote it: a user of this machine, or tcp:address"`
	Reason    string          `json:"reason,omitempty" doc:"the message of that write"`
	At        time.Time       `json:"at,omitzero" doc:"when it was written, by the writer's clock; none for an ephemeral key"`
	// Owner is nil of an operator's key.
	Owner *Owner `json:"owner,omitempty" doc:"whose an ephemeral key is; then the revisions count this node's own view of such keys, in epoch 0"`
}

// Owner is the node to which an ephemeral key belongs.
type Owner struct {
	Node        string `json:"node" doc:"the id of the node"`
	Incarnation uint64 `json:"incarnation" doc:"names the start of the node that wrote the key, higher than those before"`
	Seq         uint64 `json:"seq" doc:"which of its changes since then"`
	Draining    bool   `json:"draining" doc:"it asks for no new work"`
	Orphaned    bool   `json:"orphaned" doc:"this node can't reach it"`
}

// Written answers a PUT and a PATCH.
type Written struct {
	Key      string          `json:"key" doc:"the key, as it is stored"`
	Rev      string          `json:"rev" doc:"the revision of the change; for a dry run the one that it would have made"`
	Value    json.RawMessage `json:"value" doc:"the value, as it is stored"`
	Encoding Encoding        `json:"encoding,omitempty" doc:"how a value that is not JSON is held: text, or base64"`
	Applied  Applied         `json:"applied" doc:"the nodes that serve it"`
	DryRun   bool            `json:"dryRun" doc:"nothing was written"`
	Notices  []spec.Fault    `json:"notices" doc:"what was taken otherwise than it was written"`
}

// Deleted answers a DELETE.
type Deleted struct {
	Key     string       `json:"key" doc:"the key or prefix"`
	Rev     string       `json:"rev" doc:"the revision of the change; for a dry run the one that it would have made"`
	Deleted int          `json:"deleted" doc:"how many keys went"`
	Applied Applied      `json:"applied" doc:"the nodes that serve without them"`
	DryRun  bool         `json:"dryRun" doc:"nothing was written"`
	Notices []spec.Fault `json:"notices" doc:"what is wrong with the keys that stay"`
}

// Committed answers a transaction.
type Committed struct {
	Succeeded bool         `json:"succeeded" doc:"the compares held and then was run; else else was"`
	Rev       string       `json:"rev" doc:"the revision of the change, or the current one where nothing changed"`
	Changed   []string     `json:"changed" doc:"the keys that changed"`
	Applied   Applied      `json:"applied" doc:"the nodes that serve it"`
	DryRun    bool         `json:"dryRun" doc:"nothing was written"`
	Notices   []spec.Fault `json:"notices" doc:"what was taken otherwise than it was written"`
}

// Applied is the receipt of a write: how many of the live nodes serve it, as far as they were waited for.
type Applied struct {
	Nodes   int      `json:"nodes" doc:"nodes that are known to serve the revision; 0 where nobody waited for it; with wait=local at a node without a gateway, 1 once it has it"`
	Of      int      `json:"of" doc:"nodes that live and run a gateway; at least 1"`
	Ms      int64    `json:"ms" doc:"milliseconds from the commit to the last of them, or to the end of the wait"`
	Slowest string   `json:"slowest,omitempty" doc:"the name of the last of them, where there are several"`
	Missing []string `json:"missing,omitempty" doc:"the names of the nodes that were waited for in vain"`
	// NoGateway is the answering node's.
	NoGateway bool `json:"noGateway,omitempty" doc:"the node that answers runs no gateway: it holds the change, and others serve it"`
}

// Listing answers a GET of a prefix. Exactly one of Entries and Keys is there.
type Listing struct {
	Rev     string     `json:"rev" doc:"the revision that was read; a watch continues from it"`
	Entries []Envelope `json:"entries,omitempty" doc:"the entries, by key"`
	Keys    []string   `json:"keys,omitempty" doc:"the keys alone (?keys=1)"`
}

// Txn is the body of POST /v1/txn: when all compares hold, then is run, else else; all of it or nothing.
type Txn struct {
	Compare []Compare `json:"compare,omitempty" doc:"what must hold"`
	Then    []Op      `json:"then,omitempty" doc:"what is done when it holds"`
	Else    []Op      `json:"else,omitempty" doc:"what is done when it does not"`
}

// Compare is one condition of a transaction.
type Compare struct {
	Key    string          `json:"key" doc:"the key"`
	Target string          `json:"target" doc:"modRev, version, value or absent"`
	Op     string          `json:"op,omitempty" doc:"= (the default), !=, < or >"`
	Value  json.RawMessage `json:"value,omitempty" doc:"a revision, a number or a value; for absent true (the default) or false"`
}

// Op is one operation of a transaction; exactly one field is set.
type Op struct {
	Put         *PutOp         `json:"put,omitempty" doc:"write a key"`
	Delete      *DeleteOp      `json:"delete,omitempty" doc:"delete a key"`
	DeleteRange *DeleteRangeOp `json:"deleteRange,omitempty" doc:"delete a key and all below it"`
}

// PutOp writes a key.
type PutOp struct {
	Key      string          `json:"key" doc:"the key"`
	Value    json.RawMessage `json:"value" doc:"any JSON; under gateway/ a text is shorthand or YAML"`
	Encoding Encoding        `json:"encoding,omitempty" doc:"text or base64: the value is a JSON string that holds the bytes so (free keys only)"`
}

// DeleteOp deletes a key.
type DeleteOp struct {
	Key string `json:"key" doc:"the key"`
}

// DeleteRangeOp deletes a prefix: the key itself and what is below it; with a slash at the end only what is below it.
type DeleteRangeOp struct {
	Prefix string `json:"prefix" doc:"the prefix"`
}

// Validation is the body of POST /v1/validate.
type Validation struct {
	Values map[string]json.RawMessage `json:"values" doc:"values by key: JSON, or a text that is shorthand or YAML"`
}

// Verdict answers it.
type Verdict struct {
	Faults  []spec.Fault `json:"faults" doc:"what would refuse the values; empty when they are good"`
	Notices []spec.Fault `json:"notices" doc:"what would be taken otherwise than it is written"`
}

// RouteList answers GET /v1/routes.
type RouteList struct {
	Rev    string                `json:"rev" doc:"the revision of the live table"`
	Routes []gateway.RouteStatus `json:"routes" doc:"every route, in the order in which they are tried"`
}

// Status answers GET /v1/status.
type Status struct {
	Node
	Rev         string                      `json:"rev" doc:"the revision of the store"`
	Keys        int                         `json:"keys" doc:"how many keys it holds"`
	Ready       bool                        `json:"ready" doc:"the node takes traffic"`
	Waiting     string                      `json:"waiting,omitempty" doc:"why it is not ready"`
	Instances   InstanceCount               `json:"instances" doc:"the announced instances that it knows"`
	Table       TableStatus                 `json:"table" doc:"the live table"`
	Maintenance []gateway.MaintenanceStatus `json:"maintenance" doc:"what is under maintenance"`
	// Cluster is nil for a node that is in none.
	Cluster *ClusterStatus `json:"cluster,omitempty" doc:"the cluster, as the node sees it; none: it is in none"`
}

// InstanceCount counts announced instances.
type InstanceCount struct {
	All  int `json:"all" doc:"in the cluster, as far as the node knows"`
	Here int `json:"here" doc:"announced at the node itself"`
}

// Node is what the agent knows of itself.
type Node struct {
	ID        string            `json:"id" doc:"the node's id, made at its first start"`
	Name      string            `json:"name" doc:"the node's name"`
	Region    string            `json:"region,omitempty" doc:"the node's region"`
	Version   string            `json:"version" doc:"the version of the agent"`
	Build     string            `json:"build,omitempty" doc:"what it was built from"`
	PID       int               `json:"pid" doc:"the process"`
	StartedAt time.Time         `json:"startedAt" doc:"when it started"`
	DataDir   string            `json:"dataDir,omitempty" doc:"the data directory; none: all is in memory"`
	Listeners map[string]string `json:"listeners" doc:"the addresses by name: http, admin, socket, metrics"`
	Reload    *Reload           `json:"reload,omitempty" doc:"the last reload of the static file"`
}

// Reload is the outcome of one SIGHUP.
type Reload struct {
	At    time.Time `json:"at" doc:"when it was tried"`
	Error string    `json:"error,omitempty" doc:"why it was refused; the configuration before it still holds"`
}

// TableStatus is the live table in short.
type TableStatus struct {
	Rev     string       `json:"rev" doc:"the revision that it was built from"`
	Hash    string       `json:"hash" doc:"equal on nodes that serve the same"`
	BuiltAt time.Time    `json:"builtAt" doc:"when it was built"`
	Routes  int          `json:"routes" doc:"how many routes are live"`
	Faults  []spec.Fault `json:"faults" doc:"the keys that are quarantined, and why"`
	Notices []spec.Fault `json:"notices" doc:"what was taken otherwise than it was written"`
}

// Problem is the document of every error (RFC 9457), as application/problem+json.
type Problem struct {
	Type           string       `json:"type" doc:"urn:grapevine: and the code with hyphens"`
	Title          string       `json:"title" doc:"the code"`
	Status         int          `json:"status" doc:"the status"`
	Detail         string       `json:"detail" doc:"what is wrong, for a person"`
	Code           string       `json:"code" doc:"what is wrong, for a program"`
	Key            string       `json:"key,omitempty" doc:"the key that it is about"`
	Faults         []spec.Fault `json:"faults,omitempty" doc:"all that is wrong with the values"`
	Rev            string       `json:"rev,omitempty" doc:"conflict: the revision that the key has now; compacted: the oldest that is left"`
	NothingWritten bool         `json:"nothingWritten" doc:"the store is as it was"`
}
