package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"grapevine/agent/identity"
)

// MemberList answers GET /v1/members.
type MemberList struct {
	Rev     string   `json:"rev" doc:"the revision of the store of the node that was asked"`
	Members []Member `json:"members" doc:"the nodes, by name"`
}

// Joining is the body of POST /v1/members/join.
type Joining struct {
	Addresses []string `json:"addresses" doc:"nodes of the cluster, each as host:port"`
}

// Joined answers it.
type Joined struct {
	Alive   int `json:"alive" doc:"how many nodes live, this one among them"`
	Members int `json:"members" doc:"how many are known"`
}

// Nothing is the body of a request that has nothing to say: an empty object. It may be left out on the unix socket.
type Nothing struct{}

// Gone answers POST /v1/leave and DELETE /v1/members/{node}.
type Gone struct {
	Node    string `json:"node" doc:"the name of the node that is no member any more"`
	Revoked bool   `json:"revoked" doc:"its certificate is refused from now on"`
}

// Reachability answers GET /v1/reachability.
type Reachability struct {
	Pairs []Reach `json:"pairs" doc:"by the name of the node that probed, then by that of the other"`
}

// live is how many live nodes run a gateway, and so can serve a change.
func (a *API) live() int {
	gateways := slices.DeleteFunc(onlyLive(a.Cluster.Members()), func(m Member) bool { return m.NoGateway })
	return max(1, len(gateways))
}

func (a *API) members(c *call) error {
	a.answer(c, http.StatusOK, MemberList{
		Rev:     a.Store.View().Rev().String(),
		Members: append([]Member{}, a.Cluster.Members()...),
	})
	return nil
}

func (a *API) join(c *call) error {
	var doc Joining
	if err := c.document(maxSmallBody, &doc); err != nil {
		return err
	}
	if err := checkAddresses(doc.Addresses); err != nil {
		return err
	}
	err := a.within(c, func(ctx context.Context) error { return a.Cluster.Join(ctx, doc.Addresses) })
	if err == nil {
		a.answer(c, http.StatusOK, Joined{Alive: len(onlyLive(a.Cluster.Members())), Members: len(a.Cluster.Members())})
	}
	return err
}

func checkAddresses(addresses []string) error {
	if len(addresses) == 0 {
		return fail(codeBadRequest, "addresses: are missing")
	}
	for i, address := range addresses {
		if err := checkAddress(address); err != nil {
			return fail(codeBadRequest, "addresses[%d]: %v", i, err)
		}
	}
	return nil
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	switch n, portErr := strconv.ParseUint(port, 10, 16); {
	case strings.HasPrefix(address, identity.TokenPrefix):
		return fmt.Errorf("is a join token, which a node takes when it starts: agent run --join")
	case err != nil || portErr != nil || host == "" || n == 0:
		return fmt.Errorf("%q: is not of the form host:port", address)
	}
	return nil
}

func (a *API) leave(c *call) error {
	var doc Nothing
	if err := c.optional(&doc); err != nil {
		return err
	}
	err := a.within(c, a.Cluster.Leave)
	if err == nil {
		a.answer(c, http.StatusOK, Gone{Node: a.Node().Name})
	}
	return err
}

// forceLeave takes out another node. One that lives would come back, unless it is revoked.
func (a *API) forceLeave(c *call) error {
	m, err := FindMember(a.Cluster.Members(), c.rest)
	revoke := c.query.on("revoke")
	switch {
	case isNotFound(err): // the voters may remember a node that nobody has heard of for long
		m = Member{Node: c.rest, ID: c.rest}
	case err != nil:
		return err
	case m.Self:
		return &RefusedError{fmt.Sprintf("node %q: is the one that was asked; agent leave takes it out", m.Node)}
	case m.live() && !revoke:
		return &RefusedError{fmt.Sprintf("node %q: is %s, and would come back; run agent leave on it, or revoke it", m.Node, m.Status)}
	}
	err = a.within(c, func(ctx context.Context) error { return a.Cluster.ForceLeave(ctx, m.ID, revoke) })
	if err == nil {
		a.answer(c, http.StatusOK, Gone{Node: m.Node, Revoked: revoke})
	}
	return err
}

func (a *API) reachability(c *call) error {
	return a.within(c, func(ctx context.Context) error {
		pairs, err := a.Cluster.Reachability(ctx)
		if err == nil {
			a.answer(c, http.StatusOK, Reachability{Pairs: append([]Reach{}, pairs...)})
		}
		return err
	})
}
