package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"grapevine/gateway"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// maxFor bounds ?for=, so that a slip of the pen is no maintenance for ever.
const maxFor = 366 * 24 * time.Hour

// MaintenanceList answers GET /v1/maintenance.
type MaintenanceList struct {
	Rev         string                      `json:"rev" doc:"the revision of the live table"`
	Maintenance []gateway.MaintenanceStatus `json:"maintenance" doc:"those that are switched on: the whole gateway first, then by cluster"`
}

// MaintenanceChange answers a PUT and a DELETE below /v1/maintenance.
type MaintenanceChange struct {
	Cluster string          `json:"cluster" doc:"which cluster; empty: the whole gateway"`
	Scope   string          `json:"scope" doc:"all (every node, by a key) or node (the one that answers alone)"`
	On      bool            `json:"on" doc:"whether it is switched on now"`
	Rev     string          `json:"rev,omitempty" doc:"the revision of the change; absent for one of a node alone"`
	Value   json.RawMessage `json:"value,omitempty" doc:"the value, as it is stored; absent when it was switched off"`
	Applied Applied         `json:"applied" doc:"the nodes that serve it"`
	DryRun  bool            `json:"dryRun" doc:"nothing was written"`
	Notices []spec.Fault    `json:"notices" doc:"what was taken otherwise than it was written"`
}

func maintenanceOperations() []operation {
	const whole, one = "/v1/maintenance", "/v1/maintenance/{cluster}"
	noSuchCluster := answer{status: 404, text: "not_found: there is no such cluster", document: Problem{}}
	return []operation{
		{
			name: "listMaintenance", gateway: true, method: http.MethodGet, path: whole, serve: (*API).maintenance,
			summary: "What is under maintenance",
			text:    "As the node that answers sees it, and with what it did there.",
			answers: []answer{{status: 200, text: "the maintenances", document: MaintenanceList{}}},
		},
		begins("beginMaintenance", whole, "Put the whole gateway under maintenance"),
		ends("endMaintenance", whole, "End the maintenance of the whole gateway"),
		begins("beginClusterMaintenance", one, "Put one cluster under maintenance", noSuchCluster),
		ends("endClusterMaintenance", one, "End the maintenance of one cluster"),
	}
}

var localParam = param{name: "local", text: "1: on the node that answers alone, without the cluster; for when no write can be agreed on", values: switchWords()}

func begins(name, path, summary string, more ...answer) operation {
	return operation{
		name: name, gateway: true, method: http.MethodPut, path: path, serve: (*API).beginMaintenance, summary: summary,
		text: "New requests get 503 with Retry-After. The body is a maintenance, and may be empty. It does what writing the key does, but for " +
			"this: for and local are taken, a cluster must be there, and until must not have passed.",
		params:  append(writeParams(), localParam, param{name: "for", text: "how long it lasts, as 30m, by the clock of the node that answers"}),
		body:    &body{types: []string{typeJSON, typeYAML, typeShorthand}, limit: maxValueBody},
		answers: writeAnswers(MaintenanceChange{}, append(more, tooLarge)...),
	}
}

func ends(name, path, summary string) operation {
	answers := writeAnswers(MaintenanceChange{}, answer{status: 404, text: "not_found: there is no such maintenance", document: Problem{}})
	return operation{
		name: name, gateway: true, method: http.MethodDelete, path: path, serve: (*API).endMaintenance, summary: summary,
		text:    "Deletes the key, or with local what the node has of its own.",
		params:  append(writeParams(), localParam),
		answers: slices.DeleteFunc(answers, func(a answer) bool { return a.status == http.StatusUnprocessableEntity }), // there is no value
	}
}

func (a *API) maintenance(c *call) error {
	table := a.Gateway.Table()
	a.answer(c, http.StatusOK, MaintenanceList{Rev: table.Rev().String(), Maintenance: table.Maintenance()})
	return nil
}

// maintainedKey is the key that a request is about.
func maintainedKey(c *call) (kv.Key, string, error) {
	name := "gateway/maintenance"
	if c.rest != "" {
		name += "/" + c.rest
	}
	key, err := writable(name)
	if err != nil || c.rest == "" {
		return key, "", err
	}
	return key, string(key[len("gateway/maintenance/"):]), nil
}

func (a *API) beginMaintenance(c *call) error {
	key, cluster, err := maintainedKey(c)
	if err != nil {
		return err
	}
	if there, hint := a.Gateway.Table().FindCluster(cluster); cluster != "" && !there {
		return fail(codeNotFound, "cluster %q: there is none%s", cluster, hint).about(string(key))
	}
	value, notices, err := a.maintenanceOf(c, key)
	if err != nil {
		return err
	}
	done := MaintenanceChange{Cluster: cluster, Scope: gateway.ScopeAll, On: true, Value: value, Notices: notices}
	if c.query.on("local") {
		return a.changeLocal(c, done, func() error { return a.Gateway.BeginLocal(cluster, value, c.author()) })
	}
	return a.changeMaintenance(c, done, kv.Put(key, value))
}

// maintenanceOf reads the value, with the moment at which it ends.
func (a *API) maintenanceOf(c *call, key kv.Key) ([]byte, []spec.Fault, error) {
	data, err := c.read(maxValueBody)
	if err != nil {
		return nil, nil, err
	}
	form := c.form()
	if len(bytes.TrimSpace(data)) == 0 {
		data, form = []byte("on"), spec.FormShorthand
	}
	decoded, err := spec.Decode(string(key), data, form)
	if err != nil {
		return nil, nil, err
	}
	m := *decoded.Value.(*spec.Maintenance)
	if !m.Enabled {
		return nil, nil, invalid(spec.Faults{{Key: string(key), Field: "enabled", Value: "false", Problem: "switches nothing on; DELETE ends a maintenance"}})
	}
	now := time.Now()
	if given := c.query["for"]; given != "" {
		var span spec.Duration
		switch err := span.UnmarshalText([]byte(given)); {
		case err != nil:
			return nil, nil, fail(codeBadRequest, "for %q: %v", given, err)
		case time.Duration(span) < time.Second || time.Duration(span) > maxFor:
			return nil, nil, fail(codeBadRequest, "for %q: must be from 1s to 8784h (366 days)", given)
		case !m.Until.IsZero():
			return nil, nil, fail(codeBadRequest, "for %q: the value has an until; give one of them", given)
		}
		m.Until = spec.Time{Time: now.Add(time.Duration(span)).UTC().Truncate(time.Second)}
	}
	if !m.Until.IsZero() && !m.Until.After(now) {
		return nil, nil, invalid(spec.Faults{{
			Key: string(key), Field: "until", Value: m.Until.Format(time.RFC3339), Problem: "has passed: it is " + now.UTC().Format(time.RFC3339) + " on this node",
		}})
	}
	return spec.Encode(&m), decoded.Notices, nil
}

func (a *API) endMaintenance(c *call) error {
	key, cluster, err := maintainedKey(c)
	if err != nil {
		return err
	}
	done := MaintenanceChange{Cluster: cluster, Scope: gateway.ScopeAll}
	if c.query.on("local") {
		return a.changeLocal(c, done, func() error {
			was, err := a.Gateway.EndLocal(cluster)
			if err == nil && !was {
				err = fail(codeNotFound, "%s: this node has no maintenance of its own", key).about(string(key))
			}
			return err
		})
	}
	return a.changeMaintenance(c, done, kv.Delete(key))
}

// changeMaintenance writes the key, and answers.
func (a *API) changeMaintenance(c *call, done MaintenanceChange, op kv.Op) error {
	w, err := a.write(c, kv.Txn{Then: []kv.Op{op}})
	switch {
	case err != nil:
		return err
	case op.Kind == kv.OpDelete && w.result.Deleted == 0:
		return a.unmaintained(done.Cluster)
	}
	done.Rev, done.Applied, done.DryRun, done.Notices = w.result.Rev.String(), w.applied, w.dryRun, join(done.Notices, w.quarantined)
	a.answer(c, w.status(), done)
	return nil
}

// unmaintained is the failure to end what is not there.
func (a *API) unmaintained(cluster string) error {
	what, hint := "the whole gateway", ""
	if cluster != "" {
		what = "cluster " + cluster
	}
	for _, m := range a.Gateway.Table().Maintenance() {
		if m.Cluster == cluster && m.Scope == gateway.ScopeNode {
			hint = "; but for one of this node's own, which local=1 (--local) ends"
		}
	}
	return fail(codeNotFound, "%s is under no maintenance%s", what, hint)
}

// changeLocal changes what the node has of its own, and answers.
func (a *API) changeLocal(c *call, done MaintenanceChange, change func() error) error {
	for _, name := range []string{"wait", "dryRun", "message"} {
		if _, given := c.query[name]; given {
			return fail(codeBadRequest, "%s: is for what the cluster writes, and local=1 changes this node alone", name)
		}
	}
	if err := change(); err != nil {
		return err
	}
	done.Scope, done.Applied, done.Notices = gateway.ScopeNode, Applied{Nodes: 1, Of: a.live()}, join(done.Notices)
	a.Logger.Info("maintenance of this node alone", "cluster", done.Cluster, "on", done.On, "by", c.author())
	a.answer(c, http.StatusOK, done)
	return nil
}
