package api_test

import (
	"grapevine/agent/api"
	"grapevine/kv"
)

// clustered lets the node be one of a cluster whose calls fail with err, or succeed where it is nil.
func clustered(err error) func(*setup) {
	cluster := newTrio()
	cluster.fails = err
	return cluster.in
}

// mute is a cluster that answers nothing.
func mute(s *setup) {
	cluster := newTrio()
	cluster.silent = true
	cluster.in(s)
	s.Bound = 1
}

// clusterContracts are the contracts of the operations of a cluster.
func clusterContracts() map[string]contract {
	all := map[string]contract{
		"listMembers 200":      request("GET", "/v1/members", "").with(clustered(nil)),
		"listCertificates 200": request("GET", "/v1/certificates", "").with(clustered(nil)),

		"joinMembers 400": request("POST", "/v1/members/join", `{}`),
		"joinMembers 502": request("POST", "/v1/members/join", `{"addresses":["a:1"]}`).with(clustered(&api.UnreachableError{Node: "a:1", Err: kv.ErrClosed})),

		"leave 400":              request("POST", "/v1/leave", `{"x":1}`),
		"removeMember 400":       request("DELETE", "/v1/members/edge-3?revoke=x", ""),
		"transferLeadership 400": request("POST", "/v1/raft/transfer-leadership", `{"x":1}`),
		"promote 400":            request("POST", "/v1/raft/promote", `{}`),
		"demote 400":             request("POST", "/v1/raft/demote", `{}`),
		"planRecovery 400":       request("GET", "/v1/raft/recovery?timeout=x", ""),
		"recover 400":            request("POST", "/v1/raft/recovery", `{"x":1}`),
		"createToken 400":        request("POST", "/v1/tokens", `{"role":"x"}`),
		"revokeToken 400":        request("DELETE", "/v1/tokens/x?timeout=x", ""),
		"probeReachability 400":  request("GET", "/v1/reachability?timeout=x", ""),
		"listPeers 400":          request("GET", "/v1/raft/peers?timeout=x", ""),
		"listTokens 400":         request("GET", "/v1/tokens?timeout=x", ""),
		"listAlarms 200":         request("GET", "/v1/alarms", "").with(clustered(nil)),
		"listAlarms 409":         request("GET", "/v1/alarms", "").with(clustered(&api.RefusedError{Reason: "it must not be"})),
		"showAlarm 400":          request("GET", "/v1/alarms/edge-2?timeout=x", ""),
		"showAlarm 502":          request("GET", "/v1/alarms/edge-2", "").with(clustered(&api.UnreachableError{Node: "edge-2", Err: kv.ErrClosed})),
		"settleAlarm 400":        request("POST", "/v1/alarms/edge-2", `{"keep":"both"}`),
		"readKeyring 400":        request("GET", "/v1/keyring?timeout=x", ""),
		"rotateKeys 400":         request("POST", "/v1/keyring/rotate", `{"x":1}`),

		"putKey 504":    request("PUT", "/v1/kv/app/x", "1").with(failing(&api.UnknownOutcomeError{Err: kv.ErrClosed})),
		"deleteKey 504": request("DELETE", "/v1/kv/app/x", "").with(failing(&api.UnknownOutcomeError{Err: kv.ErrClosed})),
		"transact 504":  request("POST", "/v1/txn", `{"then":[{"put":{"key":"app/x","value":1}}]}`).with(failing(&api.UnknownOutcomeError{Err: kv.ErrClosed})),
		"patchKey 504": request("PATCH", "/v1/kv/app/x", "{}").with(func(s *setup) {
			s.Log, s.Store = refusing{&api.UnknownOutcomeError{Err: kv.ErrClosed}}, storeWith("app/x")
		}),
		"getKey 503":   request("GET", "/v1/kv/app/x?consistency=linearizable", "").with(clustered(quorumLost)),
		"getKey 504":   request("GET", "/v1/kv/app/x?atLeast=9&timeout=1ms", ""),
		"listKeys 503": request("GET", "/v1/kv?consistency=linearizable", "").with(clustered(quorumLost)),
		"listKeys 504": request("GET", "/v1/kv?atLeast=9&timeout=1ms", ""),
	}
	changes := map[string]contract{
		"joinMembers":        request("POST", "/v1/members/join", `{"addresses":["a:1"]}`),
		"leave":              request("POST", "/v1/leave", `{}`),
		"removeMember":       request("DELETE", "/v1/members/edge-3", ""),
		"transferLeadership": request("POST", "/v1/raft/transfer-leadership", `{}`),
		"promote":            request("POST", "/v1/raft/promote", `{"node":"edge-3"}`),
		"demote":             request("POST", "/v1/raft/demote", `{"node":"edge-3"}`),
		"planRecovery":       request("GET", "/v1/raft/recovery", ""),
		"recover":            request("POST", "/v1/raft/recovery", `{}`),
		"createToken":        request("POST", "/v1/tokens", `{}`),
		"revokeToken":        request("DELETE", "/v1/tokens/x", ""),
		"probeReachability":  request("GET", "/v1/reachability", ""),
		"listPeers":          request("GET", "/v1/raft/peers", ""),
		"listTokens":         request("GET", "/v1/tokens", ""),
		"showAlarm":          request("GET", "/v1/alarms/edge-2", ""),
		"settleAlarm":        request("POST", "/v1/alarms/edge-2", `{"keep":"cluster"}`),
		"readKeyring":        request("GET", "/v1/keyring", ""),
		"rotateKeys":         request("POST", "/v1/keyring/rotate", `{}`),
	}
	for name, change := range changes {
		all[name+" 200"] = change.with(clustered(nil))
		all[name+" 504"] = change.with(mute)
		all[name+" 404"] = change.with(clustered(&api.NotFoundError{What: "node", Name: "x"}))
		all[name+" 409"] = change.with(clustered(&api.RefusedError{Reason: "it must not be"}))
		all[name+" 503"] = change.with(clustered(quorumLost))
	}
	all["revokeToken 200"] = changes["revokeToken"].with(func(s *setup) {
		cluster := newTrio()
		cluster.tokens = []api.Token{{ID: "x"}}
		cluster.in(s)
	})
	all["listTokens 200"] = changes["listTokens"].with(clustered(nil)).on(func(n *node) { n.socket.do("POST", "/v1/tokens", "") })
	// What has no such answer in the description.
	for _, name := range []string{
		"joinMembers 404", "joinMembers 503", "leave 404", "createToken 404",
		"probeReachability 404", "probeReachability 409", "probeReachability 503",
		"listPeers 404", "listPeers 409", "listTokens 404", "listTokens 409", "listTokens 503",
		"planRecovery 404", "planRecovery 503", "recover 404",
		"showAlarm 503", "readKeyring 404", "readKeyring 503", "rotateKeys 404",
	} {
		delete(all, name)
	}
	return all
}
