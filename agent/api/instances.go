package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"grapevine/agent/announcing"
	"grapevine/gateway"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// instancePrefix is where instances stand: routeId and instanceId follow.
const instancePrefix = "gateway/instances/"

// InstanceList answers GET /v1/instances.
type InstanceList struct {
	Instances []Instance `json:"instances" doc:"by route and id"`
}

// Instance is an announced instance, as the node that is asked knows it.
type Instance struct {
	Route    string          `json:"route" doc:"the route that it serves"`
	Instance string          `json:"instance" doc:"its id"`
	Address  string          `json:"address" doc:"where it is reached"`
	State    string          `json:"state" doc:"healthy, degraded, unhealthy, draining (it gets no new requests) or orphaned (its node can't be reached; it is used where no other is)"`
	Owner    string          `json:"owner" doc:"the name of the node that it announced itself at; its id where the name is not known"`
	OwnerID  string          `json:"ownerId" doc:"the id of that node"`
	Since    time.Time       `json:"since,omitzero" doc:"when it started, by its own clock or its agent's"`
	Version  string          `json:"version,omitempty" doc:"what it runs"`
	Draining bool            `json:"draining" doc:"it gets no new requests"`
	Orphaned bool            `json:"orphaned" doc:"its node can't be reached from here"`
	Serves   bool            `json:"serves" doc:"this node's gateway has it as a destination"`
	Why      string          `json:"why,omitempty" doc:"why it has not, or what else is to be known"`
	Key      string          `json:"key" doc:"under which it is announced"`
	Value    json.RawMessage `json:"value" doc:"what is announced"`
}

// Undrained answers DELETE /v1/instances/{route}/{instance}/drain.
type Undrained struct {
	Route    string `json:"route" doc:"the route"`
	Instance string `json:"instance" doc:"the instance, which gets requests again"`
}

func instanceOperations() []operation {
	noSuchInstance := answer{status: 404, text: "not_found: nobody announces such an instance", document: Problem{}}
	return []operation{
		{
			name: "listInstances", method: http.MethodGet, path: "/v1/instances", serve: (*API).instances,
			summary: "The announced instances",
			text:    "All that the node knows, of its own and of others.",
			params:  []param{{name: "route", text: "only those of this route"}},
			answers: []answer{{status: 200, text: "the instances", document: InstanceList{}}, badRequest},
		},
		{
			name: "drainInstance", method: http.MethodPost, path: "/v1/instances/{route}/{instance}/drain", serve: (*API).drainInstance,
			summary: "Drain an instance",
			text: "Any node takes it, and brings it to the one where the instance is announced. Answers when every live gateway has confirmed that it " +
				"sends the instance nothing any more, or when the time is over; it is 200 in both cases. It holds until it is taken back or the " +
				"instance is gone, also over a restart of the agent.",
			params:  []param{{name: "timeout", text: "how long to wait for the gateways; 30s by default, at most 10m"}},
			answers: []answer{{status: 200, text: "how far the gateways are", document: announcing.Handshake{}}, badRequest, noSuchInstance, unreachable},
		},
		{
			name: "undrainInstance", method: http.MethodDelete, path: "/v1/instances/{route}/{instance}/drain", serve: (*API).undrainInstance,
			summary: "Let a drained instance get requests again",
			params:  []param{timeoutParam},
			answers: []answer{{status: 200, text: "it does", document: Undrained{}}, badRequest, noSuchInstance, refused, unreachable},
		},
	}
}

func (a *API) instances(c *call) error {
	served := map[kv.Key]gateway.InstanceStatus{}
	why := "this node runs no gateway"
	if a.Gateway != nil {
		why = "this node's gateway has not taken it in yet"
		for _, s := range a.Gateway.Instances() {
			served[s.Key] = s
		}
	}
	names := map[string]string{}
	for _, m := range a.Cluster.Members() {
		names[m.ID] = m.Node
	}
	list := InstanceList{Instances: []Instance{}}
	for entry := range a.Store.View().Under(instancePrefix) {
		i := newInstance(entry, names)
		if route := c.query["route"]; route != "" && !strings.EqualFold(route, i.Route) {
			continue
		}
		i.Why = why
		if s, known := served[entry.Key]; known {
			i.Serves, i.Why = s.Serves, s.Why
		}
		list.Instances = append(list.Instances, i)
	}
	a.answer(c, http.StatusOK, list)
	return nil
}

func newInstance(entry kv.Entry, names map[string]string) Instance {
	own := entry.Own
	i := Instance{
		Key: string(entry.Key), Draining: own.Draining, Orphaned: own.Orphaned, State: "healthy",
		OwnerID: string(own.Owner), Owner: cmp.Or(names[string(own.Owner)], string(own.Owner)),
	}
	i.Route, i.Instance, _ = strings.Cut(strings.TrimPrefix(i.Key, instancePrefix), "/")
	i.Value, _ = wireValue(entry.Value)
	if decoded, _ := spec.Decode(i.Key, entry.Value, spec.FormJSON); decoded.Value != nil {
		value := decoded.Value.(*spec.Instance)
		i.Address, i.Version, i.Since = string(value.Address), value.Version, value.StartedAt.Time
		i.State = cmp.Or(value.Status, i.State)
	}
	switch {
	case own.Orphaned:
		i.State = "orphaned"
	case own.Draining:
		i.State = "draining"
	}
	return i
}

// drainInstance is by an operator, at any node.
func (a *API) drainInstance(c *call) error {
	return a.atOwner(c, func(key kv.Key) error {
		ctx, cancel := context.WithTimeout(c.r.Context(), cmp.Or(c.timeout, operatorDrain))
		defer cancel()
		handshake, err := a.Leases.Drain(ctx, key, "by "+cmp.Or(c.author(), "an operator"))
		if err == nil {
			a.answer(c, http.StatusOK, handshake)
		}
		return err
	})
}

func (a *API) undrainInstance(c *call) error {
	return a.atOwner(c, func(key kv.Key) error {
		err := a.Leases.Undrain(key)
		if err == nil {
			a.answer(c, http.StatusOK, Undrained{Route: c.named[0], Instance: c.named[1]})
		}
		return err
	})
}

// atOwner has the node act that announces the instance: this one here, or another that is asked.
func (a *API) atOwner(c *call, here func(kv.Key) error) error {
	text, err := spec.CanonicalKey(instancePrefix + c.named[0] + "/" + c.named[1])
	if err != nil {
		return fail(codeBadRequest, "%v", err)
	}
	key := kv.Key(text)
	entry, there := a.Store.View().Get(key)
	if !there || entry.Own == nil {
		return fail(codeNotFound, "instance %s/%s: nobody announces it; GET /v1/instances lists them", c.named[0], c.named[1]).about(text)
	}
	owner := string(entry.Own.Owner)
	switch {
	case owner == a.Node().ID && a.Leases != nil:
		return here(key)
	case c.door == Peers:
		return fail(codeLoop, "instance %s/%s: node %q was asked by another node, and does not announce it", c.named[0], c.named[1], a.Node().Name)
	}
	other, err := a.Cluster.Ask(owner)
	if err != nil {
		return &UnreachableError{Node: owner, Err: fmt.Errorf("it announces the instance, and is no member: %v", err)} // whatever kind of error that is
	}
	return a.pass(c, operation{}, other)
}
