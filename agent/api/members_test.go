package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"grapevine/agent/api"
)

// quorumLost is what a node says whose voters are gone.
var quorumLost = &api.NoQuorumError{Leader: "edge-2", Voters: 3, Unreachable: []string{"edge-2", "edge-3"}}

func TestMembers(t *testing.T) {
	cluster := newTrio()
	n := startNode(t, cluster.in)
	list := want[api.MemberList](t, n.tcp.do("GET", "/v1/members", ""), 200)
	if list.Rev != "1.0" || !slices.Equal(list.Members, cluster.members) {
		t.Errorf("members %+v", list)
	}
}

// What an operator asks of the cluster reaches it as it was meant.
func TestChangesOfTheCluster(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		answer             string
		did                string
	}{
		{"POST", "/v1/members/join", `{"addresses":["10.0.0.3:7946","[::1]:7946"]}`, `{"alive":2,"members":3}`, "join [10.0.0.3:7946 [::1]:7946]"},
		{"POST", "/v1/leave", `{}`, `{"node":"edge-1","revoked":false}`, "leave"},
		{"DELETE", "/v1/members/edge-3", "", `{"node":"edge-3","revoked":false}`, "force-leave 01c false"},
		{"DELETE", "/v1/members/01c?revoke=1", "", `{"node":"edge-3","revoked":true}`, "force-leave 01c true"},
		{"DELETE", "/v1/members/edge-2?revoke", "", `{"node":"edge-2","revoked":true}`, "force-leave 01b true"},
		{"DELETE", "/v1/members/forgotten", "", `{"node":"forgotten","revoked":false}`, "force-leave forgotten false"},
		{"POST", "/v1/raft/transfer-leadership", `{}`, `{"leader":"edge-1"}`, `transfer ""`},
		{"POST", "/v1/raft/transfer-leadership", `{"node":"edge-1"}`, `{"leader":"edge-1"}`, `transfer "edge-1"`},
		{"POST", "/v1/raft/promote", `{"node":"edge-3"}`, `{"node":"edge-3","role":"voter"}`, "promote edge-3"},
		{"POST", "/v1/raft/demote", `{"node":"edge-3"}`, `{"node":"edge-3","role":"learner"}`, "demote edge-3"},
		{"POST", "/v1/tokens", `{}`, `"token":"gvt1.secret"`, "token voter 0s 0"},
		{"POST", "/v1/tokens", `{"role":"edge","ttl":"30m","uses":2}`, `"id":"0123456789abcdef"`, "token edge 30m0s 2"},
	} {
		cluster := newTrio()
		n := startNode(t, cluster.in)
		r := n.tcp.do(c.method, c.path, c.body)
		if r.status != 200 || !strings.Contains(r.body, c.answer) || !slices.Equal(cluster.calls(), []string{c.did}) {
			t.Errorf("%s %s %s: %d %s, and did %q; want %s and %q", c.method, c.path, c.body, r.status, r.body, cluster.calls(), c.answer, c.did)
		}
	}
}

// On the socket a body that has nothing to say may be left out.
func TestBodiesThatMayBeLeftOut(t *testing.T) {
	cluster := newTrio()
	n := startNode(t, cluster.in)
	for _, path := range []string{"/v1/leave", "/v1/raft/transfer-leadership", "/v1/tokens"} {
		if r := n.socket.do("POST", path, ""); r.status != 200 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	problem(t, n.tcp.do("POST", "/v1/leave", ""), 415, "unsupported_content_type")
}

// Whatever is wrong is named, and nothing is done.
func TestRequestsThatTheClusterNeverSees(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		status             int
		code, detail       string
	}{
		{"POST", "/v1/members/join", `{}`, 400, "bad_request", "addresses: are missing"},
		{"POST", "/v1/members/join", `{"addresses":["10.0.0.3"]}`, 400, "bad_request", `addresses[0]: "10.0.0.3": is not of the form host:port`},
		{"POST", "/v1/members/join", `{"addresses":["a:1",":7946"]}`, 400, "bad_request", `addresses[1]: ":7946": is not of the form host:port`},
		{"POST", "/v1/members/join", `{"addresses":["a:0"]}`, 400, "bad_request", `addresses[0]: "a:0"`},
		{"POST", "/v1/members/join", `{"addresses":["a:70000"]}`, 400, "bad_request", `addresses[0]: "a:70000"`},
		{"POST", "/v1/members/join", `{"addresses":["gvt1.abc"]}`, 400, "bad_request", "addresses[0]: is a join token, which a node takes when it starts: agent run --join"},
		{"POST", "/v1/members/join", `{"nodes":[]}`, 400, "bad_request", "body: "},
		{"POST", "/v1/members/join", `{`, 400, "bad_request", "body: "},
		{"POST", "/v1/leave", `{"node":"edge-2"}`, 400, "bad_request", "body: "},
		{"POST", "/v1/leave?timeout=x", `{}`, 400, "bad_request", `timeout "x": not a duration above zero and up to 10m0s, like 5s`},
		{"DELETE", "/v1/members/edge-1", "", 409, "refused", `node "edge-1": is the one that was asked; agent leave takes it out`},
		{"DELETE", "/v1/members/edge-2", "", 409, "refused", `node "edge-2": is suspect, and would come back; run agent leave on it, or revoke it`},
		{"DELETE", "/v1/members/edge-2?revoke=0", "", 409, "refused", `node "edge-2": is suspect`},
		{"DELETE", "/v1/members/edge-2?revoke=yes", "", 400, "bad_request", `query parameter revoke "yes"`},
		{"DELETE", "/v1/members/", "", 404, "not_found", `path "/v1/members/"`},
		{"DELETE", "/v1/members/a/b", "", 404, "not_found", `path "/v1/members/a/b"`},
		{"GET", "/v1/members/edge-1", "", 405, "method_not_allowed", "method GET: /v1/members/edge-1 takes DELETE"},
		{"GET", "/v1/members?dead", "", 400, "bad_request", `query parameter "dead": not known here; known are node`},
		{"POST", "/v1/raft/transfer-leadership", `{"node":1}`, 400, "bad_request", "body: "},
		{"POST", "/v1/raft/promote", `{}`, 400, "bad_request", "node: is missing"},
		{"POST", "/v1/raft/demote", `{"node":""}`, 400, "bad_request", "node: is missing"},
		{"POST", "/v1/raft/demote", "", 415, "unsupported_content_type", "Content-Type"},
		{"POST", "/v1/tokens", `{"role":"admin"}`, 400, "bad_request", `role "admin": is neither voter nor edge`},
		{"POST", "/v1/tokens", `{"ttl":"1"}`, 400, "bad_request", `ttl "1": not a duration of at least 1s, like 24h`},
		{"POST", "/v1/tokens", `{"ttl":"-1h"}`, 400, "bad_request", `ttl "-1h"`},
		{"POST", "/v1/tokens", `{"ttl":"1ms"}`, 400, "bad_request", `ttl "1ms"`},
		{"POST", "/v1/tokens", `{"uses":-1}`, 400, "bad_request", "uses -1: is below zero"},
		{"POST", "/v1/tokens", `{"uses":1.5}`, 400, "bad_request", "body: "},
		{"POST", "/v1/tokens", strings.Repeat(" ", 70_000), 413, "too_large", "the body is larger than the 65536 bytes"},
		{"DELETE", "/v1/tokens/", "", 404, "not_found", `path "/v1/tokens/"`},
	} {
		cluster := newTrio()
		n := startNode(t, cluster.in)
		p := problem(t, n.tcp.do(c.method, c.path, c.body), c.status, c.code)
		if !strings.HasPrefix(p.Detail, c.detail) || !p.NothingWritten {
			t.Errorf("%s %s %s: %+v, want %s", c.method, c.path, c.body, p, c.detail)
		}
		if did := cluster.calls(); did != nil {
			t.Errorf("%s %s %s: did %q", c.method, c.path, c.body, did)
		}
	}
}

// Every error of a cluster has its status and code, for every operation that asks it.
func TestErrorsOfTheCluster(t *testing.T) {
	operations := []struct{ method, path, body string }{
		{"POST", "/v1/members/join", `{"addresses":["10.0.0.3:7946"]}`},
		{"POST", "/v1/leave", `{}`},
		{"DELETE", "/v1/members/edge-3", ""},
		{"GET", "/v1/reachability", ""},
		{"GET", "/v1/raft/peers", ""},
		{"POST", "/v1/raft/transfer-leadership", `{}`},
		{"POST", "/v1/raft/promote", `{"node":"edge-3"}`},
		{"POST", "/v1/raft/demote", `{"node":"edge-3"}`},
		{"POST", "/v1/tokens", `{}`},
		{"GET", "/v1/tokens", ""},
		{"DELETE", "/v1/tokens/x", ""},
		{"GET", "/v1/certificates", ""},
		{"GET", "/v1/kv?consistency=linearizable", ""},
		{"GET", "/v1/kv/app/x?consistency=linearizable", ""},
	}
	for _, c := range []struct {
		err    error
		status int
		code   string
		detail string
		known  bool
	}{
		{quorumLost, 503, "no_quorum", "no quorum: 1 of 3 voters can be reached, not edge-2, edge-3, and 2 are needed; the last leader is edge-2", true},
		{&api.NoQuorumError{Voters: 3, Unreachable: []string{"edge-3"}}, 503, "no_quorum", "no leader took the request in time: 2 of 3 voters can be reached, not edge-3; nobody is known to lead", true},
		{&api.NoQuorumError{}, 503, "no_quorum", "no leader took the request in time", true},
		{&api.UnknownOutcomeError{Err: context.DeadlineExceeded}, 504, "unknown_outcome", "nobody answered who knows whether it was done: context deadline exceeded", false},
		{&api.NotFoundError{What: "node", Name: "x", Among: []string{"a", "b"}}, 404, "not_found", `node "x": there is none; known are a, b`, true},
		{&api.RefusedError{Reason: "edge-3 is the last voter"}, 409, "refused", "edge-3 is the last voter", true},
		{&api.UnreachableError{Node: "edge-2", Err: context.DeadlineExceeded}, 502, "node_unreachable", `node "edge-2": can't be reached: context deadline exceeded`, true},
	} {
		cluster := newTrio()
		cluster.fails = fmt.Errorf("asking: %w", c.err)
		n := startNode(t, cluster.in)
		for _, o := range operations {
			p := problem(t, n.tcp.do(o.method, o.path, o.body), c.status, c.code)
			if !strings.HasPrefix(p.Detail, "asking: "+c.detail) || p.NothingWritten != c.known {
				t.Errorf("%s %s: %+v", o.method, o.path, p)
			}
		}
	}
}

// A change that nobody answers may have happened; a question that nobody answers changed nothing.
func TestClusterThatDoesNotAnswer(t *testing.T) {
	cluster := newTrio()
	cluster.silent = true
	n := startNode(t, cluster.in)
	p := problem(t, n.tcp.do("POST", "/v1/raft/promote?timeout=1ms", `{"node":"edge-3"}`), 504, "unknown_outcome")
	if p.NothingWritten || p.Detail != "no answer within 1ms" {
		t.Errorf("%+v", p)
	}
	p = problem(t, n.tcp.do("GET", "/v1/raft/peers?timeout=1ms", ""), 504, "timeout")
	if !p.NothingWritten || p.Detail != "no answer within 1ms" {
		t.Errorf("%+v", p)
	}
	// Without a timeout of the client's the API has one of its own.
	n = startNode(t, cluster.in, func(s *setup) { s.Bound = 1 })
	problem(t, n.tcp.do("GET", "/v1/raft/peers", ""), 504, "timeout")
}

func TestTokens(t *testing.T) {
	cluster := newTrio()
	n := startNode(t, cluster.in)
	if list := want[api.TokenList](t, n.tcp.do("GET", "/v1/tokens", ""), 200); list.Tokens == nil || len(list.Tokens) != 0 {
		t.Errorf("tokens %+v", list)
	}
	made := want[api.NewToken](t, n.tcp.do("POST", "/v1/tokens", `{"uses":1}`), 200)
	list := want[api.TokenList](t, n.tcp.do("GET", "/v1/tokens", ""), 200)
	if made.Secret != "gvt1.secret" || len(list.Tokens) != 1 || list.Tokens[0] != made.Token {
		t.Errorf("made %+v, listed %+v", made, list)
	}
	want[api.Revoked](t, n.tcp.do("DELETE", "/v1/tokens/"+made.ID, ""), 200)
	p := problem(t, n.tcp.do("DELETE", "/v1/tokens/"+made.ID, ""), 404, "not_found")
	if p.Detail != `token "0123456789abcdef": there is none` {
		t.Errorf("%+v", p)
	}
}

func TestReachabilityPeersAndCertificates(t *testing.T) {
	n := startNode(t, newTrio().in)
	r := want[api.Reachability](t, n.tcp.do("GET", "/v1/reachability", ""), 200)
	if len(r.Pairs) != 3 || !r.Pairs[0].UDP.OK || r.Pairs[1].Raft.Problem == "" || r.Pairs[2].TCP != nil {
		t.Errorf("reachability %+v", r)
	}
	p := want[api.PeerList](t, n.tcp.do("GET", "/v1/raft/peers", ""), 200)
	if len(p.Peers) != 3 || p.Peers[1] != (api.Peer{Node: "edge-2", ID: "01b", Address: "10.0.0.2:7946", Role: "voter", Leader: true}) {
		t.Errorf("peers %+v", p)
	}
	c := want[api.CertificateList](t, n.tcp.do("GET", "/v1/certificates", ""), 200)
	if len(c.Certificates) != 2 || c.Certificates[1].Role != "voter" {
		t.Errorf("certificates %+v", c)
	}
}

func TestStatusOfACluster(t *testing.T) {
	cluster := newTrio()
	n := startNode(t, cluster.in)
	s := want[api.Status](t, n.tcp.do("GET", "/v1/status", ""), 200).Cluster
	if s == nil || s.ID != "c1" || s.Role != "voter" || s.Leader != "edge-2" || s.Alive != 2 || s.Members != 3 || s.Voters != 3 ||
		s.Applied != "1.12" || s.Lag != 0 || s.Stale || !slices.Equal(s.Alarms, cluster.standing.Alarms) ||
		s.Tolerance != "2 of 3 voters can be reached: losing one of them stops writes" {
		t.Errorf("status %+v", s)
	}
}

func TestTolerance(t *testing.T) {
	for _, c := range []struct {
		voters, reachable int
		words             string
	}{
		{0, 0, "no voter is known: nothing can be written"},
		{1, 1, "1 voter: losing it stops writes"},
		{1, 0, "0 of 1 voter can be reached, and 1 are needed: writes have stopped"},
		{2, 2, "2 voters: losing one of them stops writes"},
		{3, 3, "3 voters: writes outlive the loss of 1"},
		{3, 1, "1 of 3 voters can be reached, and 2 are needed: writes have stopped"},
		{5, 5, "5 voters: writes outlive the loss of 2"},
		{5, 4, "4 of 5 voters can be reached: writes outlive the loss of 1"},
		{5, 3, "3 of 5 voters can be reached: losing one of them stops writes"},
	} {
		cluster := newTrio()
		cluster.standing = api.Standing{Voters: c.voters, Reachable: c.reachable}
		n := startNode(t, cluster.in)
		if got := want[api.Status](t, n.tcp.do("GET", "/v1/status", ""), 200).Cluster.Tolerance; got != c.words {
			t.Errorf("%d of %d: %q, want %q", c.reachable, c.voters, got, c.words)
		}
	}
}

// A node without a cluster answers everything, too.
func TestAlone(t *testing.T) {
	n := startNode(t)
	members := want[api.MemberList](t, n.tcp.do("GET", "/v1/members", ""), 200).Members
	self := api.Member{Node: "test", ID: "01j00000000000000000000000", Status: "alive", Role: "voter", Version: "0", Applied: "1.0", Leader: true, Self: true}
	if !slices.Equal(members, []api.Member{self}) {
		t.Errorf("members %+v", members)
	}
	peers := want[api.PeerList](t, n.tcp.do("GET", "/v1/raft/peers", ""), 200).Peers
	if !slices.Equal(peers, []api.Peer{{Node: "test", ID: self.ID, Role: "voter", Leader: true}}) {
		t.Errorf("peers %+v", peers)
	}
	if s := want[api.Status](t, n.tcp.do("GET", "/v1/status?node=test", ""), 200); s.Cluster != nil {
		t.Errorf("status %+v", s)
	}
	w := want[api.Written](t, n.tcp.do("PUT", "/v1/kv/app/x?wait=all", "1"), 200)
	if w.Applied.Nodes != 1 || w.Applied.Of != 1 || w.Applied.Slowest != "" || w.Applied.Missing != nil {
		t.Errorf("receipt %+v", w.Applied)
	}
	want[api.Envelope](t, n.tcp.do("GET", "/v1/kv/app/x?detail&consistency=linearizable&atLeast=1.1", ""), 200)
	for path, empty := range map[string]string{
		"/v1/reachability": `{"pairs":[]}`, "/v1/tokens": `{"tokens":[]}`, "/v1/certificates": `{"certificates":[]}`,
	} {
		if r := n.tcp.do("GET", path, ""); r.status != 200 || strings.TrimSpace(r.body) != empty {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/members/join", `{"addresses":["10.0.0.3:7946"]}`},
		{"POST", "/v1/leave", `{}`},
		{"DELETE", "/v1/members/x", ""},
		{"POST", "/v1/raft/transfer-leadership", `{}`},
		{"POST", "/v1/raft/promote", `{"node":"test"}`},
		{"POST", "/v1/raft/demote", `{"node":"test"}`},
		{"POST", "/v1/tokens", `{}`},
		{"DELETE", "/v1/tokens/x", ""},
	} {
		p := problem(t, n.tcp.do(c.method, c.path, c.body), 409, "refused")
		if p.Detail != "this node is in no cluster; start it without --dev to have one" {
			t.Errorf("%s %s: %+v", c.method, c.path, p)
		}
	}
}

func TestFindMember(t *testing.T) {
	members := []api.Member{
		{Node: "a", ID: "1", Status: "alive"},
		{Node: "b", ID: "2", Status: "dead"},
		{Node: "b", ID: "3", Status: "alive"},
		{Node: "c", ID: "4", Status: "alive"},
		{Node: "c", ID: "5", Status: "suspect"},
		{Node: "c", ID: "6", Status: "left"},
		{Node: "d", ID: "7", Status: "dead"},
		{Node: "d", ID: "8", Status: "left"},
		{Node: "1", ID: "9", Status: "alive"},
	}
	for _, c := range []struct{ node, id, err string }{
		{"a", "1", ""},
		{"1", "1", ""},
		{"b", "3", ""},
		{"2", "2", ""},
		{"c", "", `node "c": several have the name; use an id: 4, 5`},
		{"d", "", `node "d": several have the name; use an id: 7, 8`},
		{"e", "", `node "e": there is none; known are a, b, b, c, c, c, d, d, 1`},
	} {
		m, err := api.FindMember(members, c.node)
		if m.ID != c.id || fmt.Sprint(err) != c.err && err != nil || err == nil && c.err != "" {
			t.Errorf("%s: %q, %v; want %q, %s", c.node, m.ID, err, c.id, c.err)
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		word       string
		share      api.Share
		of3, of100 int
	}{
		{"none", api.Nobody, 0, 0},
		{"local", api.Local, 1, 1},
		{"all", api.Everybody, 3, 100},
		{"1%", 1, 1, 1},
		{"33%", 33, 1, 33},
		{"34%", 34, 2, 34},
		{"50%", 50, 2, 50},
		{"67%", 67, 3, 67},
		{"100%", api.Everybody, 3, 100},
	} {
		share, err := api.ParseShare(c.word)
		if err != nil || share != c.share || share.Of(3) != c.of3 || share.Of(100) != c.of100 {
			t.Errorf("%s: %v (%v) is %d of 3 and %d of 100", c.word, share, err, share.Of(3), share.Of(100))
		}
		if again, err := api.ParseShare(share.String()); again != share || err != nil {
			t.Errorf("%s reads as %v, %v", share, again, err)
		}
	}
	for _, word := range []string{"", "0%", "101%", "-1%", "+5%", "5", "%", "1.5%", "ALL", "128%", "1000000%"} {
		if share, err := api.ParseShare(word); err == nil {
			t.Errorf("%q reads as %v", word, share)
		}
	}
}

// Reads wait until the store is far enough.
func TestReadAtLeast(t *testing.T) {
	n := startNode(t)
	stored(n)
	want[api.Listing](t, n.tcp.do("GET", "/v1/kv?atLeast=1", ""), 200)
	p := problem(t, n.tcp.do("GET", "/v1/kv/app/x?atLeast=1.2&timeout=1ms", ""), 504, "timeout")
	if p.Rev != "1.1" || p.Detail != "revision 1.2: this node is at 1.1, and was so until the time was over" {
		t.Errorf("%+v", p)
	}
	for _, query := range []string{"atLeast=x", "consistency=strong", "consistency="} {
		problem(t, n.tcp.do("GET", "/v1/kv/app/x?"+query, ""), 400, "bad_request")
	}
	waiting := make(chan reply, 1)
	go func() { waiting <- n.tcp.do("GET", "/v1/kv/app/y?atLeast=2", "") }()
	n.socket.do("PUT", "/v1/kv/app/y", `2`)
	if r := <-waiting; r.status != 200 || r.body != "2" {
		t.Errorf("%+v", r)
	}
	// An agent that stops lets nobody wait.
	go func() { waiting <- n.tcp.do("GET", "/v1/kv/app/y?atLeast=3", "") }()
	n.api.Close()
	problem(t, <-waiting, 503, "not_ready")
}

func TestReadAsksTheCluster(t *testing.T) {
	cluster := newTrio()
	n := startNode(t, cluster.in)
	stored(n)
	n.tcp.do("GET", "/v1/kv/app/x", "")
	n.tcp.do("GET", "/v1/kv?consistency=local", "")
	if did := cluster.calls(); did != nil {
		t.Errorf("local reads asked: %q", did)
	}
	n.tcp.do("GET", "/v1/kv/app/x?consistency=linearizable", "")
	n.tcp.do("GET", "/v1/kv?consistency=linearizable", "")
	if did := cluster.calls(); !slices.Equal(did, []string{"read", "read"}) {
		t.Errorf("linearizable reads asked: %q", did)
	}
}
