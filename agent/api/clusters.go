package api

import (
	"net/http"

	"grapevine/gateway"
)

// ClusterList answers GET /v1/clusters.
type ClusterList struct {
	Rev      string                `json:"rev" doc:"the revision of the live table"`
	Clusters []gateway.LiveCluster `json:"clusters" doc:"by id"`
}

// BreakerReset is the body of POST /v1/clusters/reset-breaker.
type BreakerReset struct {
	Cluster string `json:"cluster" doc:"whose circuit breaker"`
}

// BreakerState answers it.
type BreakerState struct {
	Node    string `json:"node" doc:"the node whose breaker was reset"`
	Cluster string `json:"cluster" doc:"the cluster"`
	Before  string `json:"before" doc:"the state that it had: closed, open or half-open; it is closed now"`
}

func clusterOperations() []operation {
	noSuchCluster := answer{status: 404, text: "not_found: the live table has no such cluster, or it has no breaker", document: Problem{}}
	return []operation{
		{
			name: "listClusters", gateway: true, method: http.MethodGet, path: "/v1/clusters", serve: (*API).clusters,
			summary: "The live clusters",
			text:    "With their breakers, and the health and load of their destinations, as the node that is asked sees them.",
			answers: []answer{{status: 200, text: "the clusters", document: ClusterList{}}},
		},
		{
			name: "getCluster", gateway: true, method: http.MethodGet, path: "/v1/clusters/{cluster}", serve: (*API).cluster,
			summary: "One live cluster",
			answers: []answer{{status: 200, text: "the cluster", document: gateway.LiveCluster{}}, noSuchCluster},
		},
		{
			name: "resetBreaker", gateway: true, method: http.MethodPost, path: "/v1/clusters/reset-breaker", serve: (*API).resetBreaker,
			summary: "Close a cluster's circuit breaker",
			text:    "On the node that is asked, at once, and forgetting what it has counted. It opens again if the cluster goes on failing.",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: BreakerReset{}, limit: maxSmallBody},
			answers: []answer{{status: 200, text: "it is closed", document: BreakerState{}}, badRequest, noSuchCluster},
		},
	}
}

func (a *API) clusters(c *call) error {
	table := a.Gateway.Table()
	a.answer(c, http.StatusOK, ClusterList{Rev: table.Rev().String(), Clusters: table.Clusters()})
	return nil
}

func (a *API) cluster(c *call) error {
	status, found := a.Gateway.Table().Cluster(c.rest)
	if !found {
		return noCluster(c.rest)
	}
	a.answer(c, http.StatusOK, status)
	return nil
}

func noCluster(id string) error {
	return fail(codeNotFound, "cluster %q: the live table has no such cluster; GET /v1/clusters lists them", id)
}

func (a *API) resetBreaker(c *call) error {
	var doc BreakerReset
	if err := c.document(maxSmallBody, &doc); err != nil {
		return err
	}
	if doc.Cluster == "" {
		return fail(codeBadRequest, "cluster: is missing")
	}
	before, found := a.Gateway.Table().ResetBreaker(doc.Cluster)
	switch {
	case !found:
		return noCluster(doc.Cluster)
	case before == "":
		return fail(codeNotFound, "cluster %q: has no circuit breaker; resilience.circuitBreaker gives it one", doc.Cluster)
	}
	a.Logger.Info("circuit breaker was reset by a person", "cluster", doc.Cluster, "before", before, "by", c.author())
	a.answer(c, http.StatusOK, BreakerState{Node: a.Node().Name, Cluster: doc.Cluster, Before: before})
	return nil
}
