package api

import (
	"net/http"

	"grapevine/gateway"
	"grapevine/kv"
)

func (a *API) status(c *call) error {
	view := a.Store.View()
	s := Status{Node: a.Node(), Rev: view.Rev().String(), Keys: view.Len(), Instances: a.instanceCount(view), Cluster: a.clusterStatus()}
	s.Ready, s.Waiting = a.isReady()
	if a.Gateway != nil {
		table := a.Gateway.Table()
		s.Table, s.Maintenance = tableStatus(table), table.Maintenance()
	}
	a.answer(c, http.StatusOK, s)
	return nil
}

// instanceCount counts the announced instances that the node knows.
func (a *API) instanceCount(view kv.View) (n InstanceCount) {
	self := kv.OwnerID(a.Node().ID)
	for entry := range view.Under(instancePrefix) {
		if n.All++; entry.Own.Owner == self {
			n.Here++
		}
	}
	return n
}

// isReady says whether the node takes traffic, or without a gateway announcements, and why not.
func (a *API) isReady() (bool, string) {
	if a.Gateway != nil {
		return a.Gateway.Ready()
	}
	why := a.Waiting()
	return why == "", why
}

func tableStatus(table *gateway.Table) TableStatus {
	return TableStatus{
		Rev: table.Rev().String(), Hash: table.Hash(), BuiltAt: table.BuiltAt(), Routes: table.Len(),
		Faults: join(table.Faults()), Notices: join(table.Notices()),
	}
}

func (a *API) routes(c *call) error {
	table := a.Gateway.Table()
	a.answer(c, http.StatusOK, RouteList{
		Rev:    table.Rev().String(),
		Routes: append([]gateway.RouteStatus{}, table.Routes()...),
	})
	return nil
}

func (a *API) describe(c *call) error {
	c.w.Header().Set("Content-Type", typeJSON)
	_, err := c.w.Write(a.document)
	return err
}

func (a *API) metrics(c *call) error {
	a.Metrics.ServeHTTP(c.w, c.r)
	return nil
}

// Health is what a probe is told.
type Health struct {
	Status string `json:"status" doc:"ok"`
}

// alive says that the process answers, and nothing more: a restart mends nothing else.
func (a *API) alive(c *call) error {
	a.answer(c, http.StatusOK, Health{Status: "ok"})
	return nil
}

// ready says whether the node takes traffic.
func (a *API) ready(c *call) error {
	if ready, why := a.isReady(); !ready {
		return fail(codeNotReady, "%s", why)
	}
	a.answer(c, http.StatusOK, Health{Status: "ok"})
	return nil
}
