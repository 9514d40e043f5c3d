package api

import (
	"net/http"

	"grapevine/gateway"
)

func (a *API) status(c *call) error {
	view, table := a.Store.View(), a.Gateway.Table()
	ready, why := a.Gateway.Ready()
	a.answer(c, http.StatusOK, Status{
		Node: a.Node(), Rev: view.Rev().String(), Keys: view.Len(),
		Ready: ready, Waiting: why, Table: tableStatus(table), Maintenance: table.Maintenance(), Cluster: a.clusterStatus(),
	})
	return nil
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
	if ready, why := a.Gateway.Ready(); !ready {
		return fail(codeNotReady, "%s", why)
	}
	a.answer(c, http.StatusOK, Health{Status: "ok"})
	return nil
}
