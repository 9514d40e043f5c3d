package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"grapevine/agent/api"
)

// prepared is an agent that gives prepared answers, and notes what it is asked.
type prepared struct {
	address string

	// mu guards asked.
	mu    sync.Mutex
	asked []string
}

// newPrepared answers each request, named by its method and path, with a document: an *api.Problem with its status, anything
// else with 200.
func newPrepared(t *testing.T, answers map[string]any) *prepared {
	t.Helper()
	s := new(prepared)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		query := r.URL.Query()
		query.Del("timeout")
		s.mu.Lock()
		s.asked = append(s.asked, strings.TrimSpace(strings.TrimSuffix(r.Method+" "+r.URL.EscapedPath()+"?"+query.Encode(), "?")+" "+string(body)))
		s.mu.Unlock()
		status, mime := http.StatusOK, "application/json"
		answer := answers[r.Method+" "+r.URL.Path]
		if p, ok := answer.(*api.Problem); ok {
			status, mime = p.Status, "application/problem+json"
		}
		w.Header().Set("Content-Type", mime)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	s.address = server.URL
	return s
}

// call runs a command line, and returns what it asked, too.
func (s *prepared) call(line string) (r result, asked []string) {
	r = call("", append(words(line), "--addr", s.address)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, s.asked = s.asked, nil
	return r, asked
}

func (s *prepared) check(t *testing.T, line string, exit int, stdout, stderr string, asked ...string) {
	t.Helper()
	r, got := s.call(line)
	if r.exit != exit || r.stdout != stdout || r.stderr != stderr || !slices.Equal(got, asked) {
		t.Errorf("%s\nexit %d, want %d\nstdout:\n%swant:\n%s\nstderr:\n%swant:\n%s\nasked %q\nwant  %q",
			line, r.exit, exit, r.stdout, stdout, r.stderr, stderr, got, asked)
	}
}

var threeMembers = []api.Member{
	{Node: "edge-1", ID: "01a", Address: "10.0.0.11:7946", Status: "alive", Role: "voter", Version: "0.1.0", Applied: "1.1842", Region: "eu", Leader: true, Self: true},
	{Node: "edge-2", ID: "01b", Address: "10.0.0.12:7946", Status: "dead", Role: "voter", Version: "0.1.0", Applied: "1.1800", Lag: 42, LagMs: 130_000},
	{Node: "edge-4", ID: "01d", Address: "10.0.0.14:7946", Status: "alive", Role: "edge", Version: "0.1.0", Applied: "1.1839", Lag: 3, LagMs: 8_100, Region: "us", UDPBlocked: true},
}

func TestMembers(t *testing.T) {
	s := newPrepared(t, map[string]any{"GET /v1/members": api.MemberList{Rev: "1.1842", Members: threeMembers}})
	s.check(t, "members", 0, ""+
		"NODE    ADDRESS         STATUS  ROLE   VERSION  APPLIED  LAG       REGION\n"+
		"edge-1  10.0.0.11:7946  alive   voter  0.1.0    1842     0         eu\n"+
		"edge-2  10.0.0.12:7946  dead    voter  0.1.0    1800     42/2m10s  -\n"+
		"edge-4  10.0.0.14:7946  alive   edge   0.1.0    1839     3/8.1s    us      <- behind  <- no UDP\n", "", "GET /v1/members")
	s.check(t, "members --detailed --node edge-4", 0, ""+
		"NODE    ADDRESS         STATUS  ROLE   VERSION  APPLIED  LAG       REGION  ID   LEADER  ASKED\n"+
		"edge-1  10.0.0.11:7946  alive   voter  0.1.0    1842     0         eu      01a  yes     yes\n"+
		"edge-2  10.0.0.12:7946  dead    voter  0.1.0    1800     42/2m10s  -       01b  -       -\n"+
		"edge-4  10.0.0.14:7946  alive   edge   0.1.0    1839     3/8.1s    us      01d  -       -      <- behind  <- no UDP\n", "", "GET /v1/members?node=edge-4")
	s.check(t, "members -o name", 0, "edge-1\nedge-2\nedge-4\n", "", "GET /v1/members")
	r, _ := s.call("members -o jsonl")
	first, _, _ := strings.Cut(r.stdout, "\n")
	want := `{"node":"edge-1","id":"01a","address":"10.0.0.11:7946","status":"alive","role":"voter","version":"0.1.0","applied":"1.1842","lag":0,` +
		`"lagMs":0,"region":"eu","leader":true,"self":true}`
	if first != want {
		t.Errorf("members -o jsonl\n got %s\nwant %s", first, want)
	}
	var b strings.Builder
	if err := memberTable(threeMembers, false, style{colour: true}).write(&b); err != nil || !strings.Contains(b.String(), "\x1b[31m<- behind\x1b[0m") {
		t.Errorf("in colour: %v\n%q", err, b.String())
	}
}

func TestLag(t *testing.T) {
	for want, m := range map[string]api.Member{
		"-": {Applied: "0.0"}, "0": {LagMs: 3}, "1/9ms": {Lag: 1, LagMs: 9}, "2/1.0s": {Lag: 2, LagMs: 999 + 1}, "3/59.9s": {Lag: 3, LagMs: 59_900}, "4/1h00m": {Lag: 4, LagMs: 3_600_000},
	} {
		if got := lag(m); got != want {
			t.Errorf("%+v: %s, want %s", m, got, want)
		}
	}
}

func TestChangesOfTheCluster(t *testing.T) {
	s := newPrepared(t, map[string]any{
		"POST /v1/members/join":              api.Joined{Alive: 3, Members: 4},
		"POST /v1/leave":                     api.Gone{Node: "edge-1"},
		"DELETE /v1/members/edge-3":          api.Gone{Node: "edge-3"},
		"DELETE /v1/members/edge/4":          api.Gone{Node: "edge/4", Revoked: true},
		"POST /v1/raft/transfer-leadership":  api.Leadership{Leader: "edge-2"},
		"POST /v1/raft/promote":              api.RoleChange{Node: "edge-3", Role: "voter"},
		"POST /v1/raft/demote":               api.RoleChange{Node: "edge-3", Role: "learner"},
		"DELETE /v1/tokens/0123456789abcdef": api.Revoked{ID: "0123456789abcdef"},
	})
	s.check(t, "join 10.0.0.3:7946 edge-4:7946", 0, "", "in touch: 3 of 4 nodes live\n",
		`POST /v1/members/join {"addresses":["10.0.0.3:7946","edge-4:7946"]}`)
	s.check(t, "leave", 0, "", "edge-1 has left the cluster; its agent stops\n", `POST /v1/leave {}`)
	s.check(t, "leave --yes -o name", 0, "edge-1\n", "edge-1 has left the cluster; its agent stops\n", `POST /v1/leave {}`)
	s.check(t, "force-leave edge-3 --yes", 0, "", "edge-3 is out of the cluster\n", "DELETE /v1/members/edge-3")
	s.check(t, "force-leave edge/4 --revoke -y", 0, "", "edge/4 is out of the cluster, its certificate is refused, and the gossip key is being replaced\n", "DELETE /v1/members/edge%2F4?revoke=1")
	s.check(t, "force-leave edge-3", exitRefused, "",
		"error: take edge-3 out of the cluster? Refused without --yes, since nobody can be asked here. Nothing was changed.\n")
	s.check(t, "force-leave edge-3 --revoke", exitRefused, "",
		"error: take edge-3 out of the cluster and refuse its certificate? Refused without --yes, since nobody can be asked here. Nothing was changed.\n")
	s.check(t, "raft transfer-leadership", 0, "", "edge-2 leads\n", `POST /v1/raft/transfer-leadership {}`)
	s.check(t, "raft transfer-leadership edge-2 -o name", 0, "edge-2\n", "edge-2 leads\n", `POST /v1/raft/transfer-leadership {"node":"edge-2"}`)
	s.check(t, "raft promote edge-3", 0, "", "edge-3 is a voter now\n", `POST /v1/raft/promote {"node":"edge-3"}`)
	s.check(t, "raft demote edge-3 -q", 0, "", "", `POST /v1/raft/demote {"node":"edge-3"}`)
	s.check(t, "token revoke 0123456789abcdef", 0, "", "token 0123456789abcdef admits nobody any more\n", "DELETE /v1/tokens/0123456789abcdef")
}

// What went wrong, whether anything was done, and what to try next.
func TestChangesThatFail(t *testing.T) {
	for _, test := range []struct {
		line, request string
		problem       api.Problem
		exit          int
		stderr        string
	}{
		{
			"raft demote edge-1", "POST /v1/raft/demote",
			api.Problem{Status: 503, Code: "no_quorum", Detail: "no quorum: 1 of 3 voters can be reached", NothingWritten: true},
			exitNoQuorum, "error: no quorum: 1 of 3 voters can be reached. Nothing was changed.\ntry: agent members\n",
		},
		{
			"raft demote edge-1", "POST /v1/raft/demote",
			api.Problem{Status: 504, Code: "unknown_outcome", Detail: "the leader went"},
			exitFailure, "error: the leader went. It may have been done.\ntry: agent raft list-peers\n",
		},
		{
			"raft promote edge-9", "POST /v1/raft/promote",
			api.Problem{Status: 404, Code: "not_found", Detail: `node "edge-9": there is none`, NothingWritten: true},
			exitNotFound, "error: node \"edge-9\": there is none. Nothing was changed.\ntry: agent raft list-peers\n",
		},
		{
			"force-leave edge-2 --yes", "DELETE /v1/members/edge-2",
			api.Problem{Status: 409, Code: "refused", Detail: `node "edge-2": is alive`, NothingWritten: true},
			exitFailure, "error: node \"edge-2\": is alive. Nothing was changed.\ntry: agent members\n",
		},
		{
			"join a:1", "POST /v1/members/join",
			api.Problem{Status: 502, Code: "node_unreachable", Detail: "a:1: connection refused", NothingWritten: true},
			exitUnreachable, "error: a:1: connection refused. Nothing was changed.\ntry: agent members\n",
		},
		{
			"token join --role admin", "POST /v1/tokens",
			api.Problem{Status: 400, Code: "bad_request", Detail: `role "admin": is neither voter nor edge`, NothingWritten: true},
			exitInvalid, "error: role \"admin\": is neither voter nor edge. Nothing was changed.\ntry: agent token join --help\n",
		},
		{
			"token join", "POST /v1/tokens",
			api.Problem{Status: 504, Code: "unknown_outcome", Detail: "the leader went"},
			exitFailure, "error: the leader went. It may have been done.\ntry: agent token list\n",
		},
		{
			"config set app/x 1", "PUT /v1/kv/app/x",
			api.Problem{Status: 504, Code: "unknown_outcome", Detail: "the leader went"},
			exitFailure, "error: the leader went. The change may have been written.\ntry: agent config get app/x --detail\n",
		},
		{
			"config get app/x --node edge-2", "GET /v1/kv/app/x",
			api.Problem{Status: 502, Code: "node_unreachable", Detail: `node "edge-2": can't be reached`, NothingWritten: true},
			exitUnreachable, "error: node \"edge-2\": can't be reached\ntry: agent members\n",
		},
	} {
		s := newPrepared(t, map[string]any{test.request: &test.problem})
		r, asked := s.call(test.line)
		if r.exit != test.exit || r.stderr != test.stderr || r.stdout != "" || len(asked) != 1 {
			t.Errorf("%s\nexit %d, want %d\n got %swant %s", test.line, r.exit, test.exit, r.stderr, test.stderr)
		}
	}
	// What the command line refuses is never asked.
	s := newPrepared(t, nil)
	for line, problem := range map[string]string{
		"token join --uses 0":               `--uses "0": not a number of nodes`,
		"token join --uses 2x":              `--uses "2x": not a number of nodes`,
		"tls ca --pem -o json":              "ca: --pem and --output: give one of them",
		"config get k --consistency strong": `--consistency "strong": neither local nor linearizable`,
		"config set k v --wait some":        `--wait "some": not none, local, all or a share from 1% to 100%`,
	} {
		if r, asked := s.call(line); r.exit != exitUsage || !strings.HasPrefix(r.stderr, "error: "+problem) || asked != nil {
			t.Errorf("%s: exit %d, asked %q\n%s", line, r.exit, asked, r.stderr)
		}
	}
}

// A change whose answer is lost may have been done.
func TestLostAnswerOfAChange(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(server.Close)
	r := call("", "raft", "promote", "edge-2", "--addr", server.URL)
	want := "error: " + server.URL + ": the connection broke before an answer came: EOF. It may have been done.\ntry: agent raft list-peers\n"
	if r.exit != exitFailure || r.stderr != want {
		t.Errorf("exit %d\n%s", r.exit, r.stderr)
	}
}

func TestReceiptsOfACluster(t *testing.T) {
	for _, test := range []struct {
		line    string
		applied api.Applied
		exit    int
		stderr  string
	}{
		{"--wait all", api.Applied{Nodes: 3, Of: 3, Ms: 9, Slowest: "edge-3"}, 0, "revision 12, applied by 3/3 nodes in 9 ms (slowest: edge-3)\n"},
		{"--wait 50%", api.Applied{Nodes: 2, Of: 3, Ms: 1234, Slowest: "edge-2"}, 0, "revision 12, applied by 2/3 nodes in 1.2 s (slowest: edge-2)\n"},
		{
			"--wait all --timeout 5s",
			api.Applied{Nodes: 2, Of: 3, Ms: 5003, Slowest: "edge-2", Missing: []string{"edge-3"}},
			exitWait,
			"error: revision 12, applied by 2/3 nodes after 5 s; not yet: edge-3. The change was written.\ntry: agent members\n",
		},
		{
			"--wait 100%",
			api.Applied{Nodes: 1, Of: 3, Ms: 10_000, Missing: []string{"edge-2", "edge-3"}},
			exitWait,
			"error: revision 12, applied by 1/3 nodes after 10 s; not yet: edge-2, edge-3. The change was written.\ntry: agent members\n",
		},
		{"--wait local", api.Applied{Nodes: 1, Of: 3, Ms: 3}, 0, "revision 12, live on this node in 3 ms\n"},
		{"--node edge-2", api.Applied{Nodes: 1, Of: 3, Ms: 3}, 0, "revision 12, live on edge-2 in 3 ms\n"},
		{"--node edge-2", api.Applied{Of: 3, Ms: 3}, exitWait, "error: revision 12: not live on edge-2 in time. The change was written.\ntry: agent status\n"},
		{"--wait none", api.Applied{Of: 3}, 0, "revision 12, committed\n"},
		{"--wait all", api.Applied{Nodes: 1, Of: 1, Ms: 3}, 0, "revision 12, live on this node in 3 ms\n"},
		// At a node without a gateway.
		{"--wait all", api.Applied{Nodes: 1, Of: 1, Ms: 3, Slowest: "edge-1", NoGateway: true}, 0, "revision 12, applied by 1/1 nodes in 3 ms (slowest: edge-1)\n"},
		{"", api.Applied{Nodes: 1, Of: 1, Ms: 3, NoGateway: true}, 0, "revision 12, held by this node in 3 ms; it runs no gateway, and others serve the change\n"},
		{
			"--node host-4",
			api.Applied{Of: 1, Ms: 3, NoGateway: true},
			exitWait,
			"error: revision 12: not held by host-4 in time. The change was written.\ntry: agent status\n",
		},
	} {
		s := newPrepared(t, map[string]any{
			"PUT /v1/kv/app/x":    api.Written{Key: "app/x", Rev: "1.12", Value: []byte("1"), Applied: test.applied},
			"DELETE /v1/kv/app/x": api.Deleted{Key: "app/x", Rev: "1.12", Deleted: 1, Applied: test.applied},
		})
		if r, _ := s.call("config set app/x 1 " + test.line); r.exit != test.exit || r.stderr != "app/x = 1\n"+test.stderr {
			t.Errorf("%s: exit %d, want %d\n%swant:\n%s", test.line, r.exit, test.exit, r.stderr, test.stderr)
		}
		if r, _ := s.call("config delete app/x " + test.line); r.exit != test.exit || r.stderr != "app/x: 1 key deleted\n"+test.stderr {
			t.Errorf("%s: exit %d, want %d\n%swant:\n%s", test.line, r.exit, test.exit, r.stderr, test.stderr)
		}
	}
}

// Flags become parameters, and the agent is told the time that it has.
func TestParametersOfRequests(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+"?"+r.URL.Query().Encode())
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"applied":{"nodes":1,"of":1}}`)
	}))
	t.Cleanup(server.Close)
	for _, line := range []string{
		"config set app/x 1 --wait 50% --timeout 5s", "config delete app/x --node b", "config get app/x --consistency linearizable --timeout 1h",
		"config get app/x", "config list --consistency local", "status --node b", "routes list --node b", "routes explain / --node b",
		"routes lint --node b", "tls ca --node b", "raft list-peers", "reachability --timeout 30s",
	} {
		call("", append(words(line), "--addr", server.URL)...)
	}
	want := []string{
		"PUT /v1/kv/app/x?timeout=5s&wait=50%25", "DELETE /v1/kv/app/x?node=b&timeout=10s&wait=local",
		"GET /v1/kv/app/x?consistency=linearizable&detail=1&timeout=10m0s", "GET /v1/kv/app/x?detail=1", "GET /v1/kv?",
		"GET /v1/status?node=b", "GET /v1/routes?node=b", "GET /v1/routes/explain?node=b&url=%2F", "GET /v1/routes/lint?node=b",
		"GET /v1/certificates?node=b", "GET /v1/raft/peers?timeout=10s", "GET /v1/reachability?timeout=30s",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}

func TestReachability(t *testing.T) {
	ok, cut := &api.Probe{OK: true, Us: 180}, &api.Probe{Problem: "timed out after 1s"}
	pairs := []api.Reach{
		{From: "edge-1", To: "edge-2", UDP: ok, TCP: ok, Raft: ok},
		{From: "edge-1", To: "edge-3", UDP: cut, TCP: ok, Raft: cut},
		{From: "edge-2", To: "edge-1", UDP: ok, TCP: ok, Raft: ok},
		{From: "edge-2", To: "edge-3", UDP: ok, TCP: ok},
		{From: "edge-3", To: "edge-1", Problem: "edge-3 does not answer"},
		{From: "edge-3", To: "edge-2", Problem: "edge-3 does not answer"},
	}
	s := newPrepared(t, map[string]any{"GET /v1/reachability": api.Reachability{Pairs: pairs}})
	s.check(t, "reachability", 1, ""+
		"FROM    edge-1  edge-2  edge-3\n"+
		"edge-1  -       ok      no udp,raft\n"+
		"edge-2  ok      -       ok\n"+
		"edge-3  ?       ?       -\n"+
		"\n"+
		"edge-1 -> edge-3: raft: timed out after 1s\n"+
		"edge-1 -> edge-3: udp: timed out after 1s\n"+
		"edge-3 does not answer\n", "error: 3 of 6 ways broken\n", "GET /v1/reachability")
	s = newPrepared(t, map[string]any{"GET /v1/reachability": api.Reachability{Pairs: []api.Reach{pairs[0], pairs[2]}}})
	s.check(t, "reachability", 0, "FROM    edge-1  edge-2\nedge-1  -       ok\nedge-2  ok      -\n", "", "GET /v1/reachability")
	s.check(t, "reachability -o name", 0, "edge-1 edge-2\nedge-2 edge-1\n", "", "GET /v1/reachability")
	s = newPrepared(t, map[string]any{"GET /v1/reachability": api.Reachability{Pairs: []api.Reach{}}})
	s.check(t, "reachability", 0, "", "there is no other node\n", "GET /v1/reachability")
	s.check(t, "reachability -o json", 0, "[]\n", "", "GET /v1/reachability")
}

func TestPeers(t *testing.T) {
	s := newPrepared(t, map[string]any{"GET /v1/raft/peers": api.PeerList{Peers: []api.Peer{
		{Node: "edge-1", ID: "01a", Address: "10.0.0.11:7946", Role: "voter", Leader: true},
		{Node: "edge-2", ID: "01b", Role: "learner"},
	}}})
	s.check(t, "raft list-peers", 0, ""+
		"NODE    ID   ADDRESS         ROLE     LEADER\n"+
		"edge-1  01a  10.0.0.11:7946  voter    yes\n"+
		"edge-2  01b  -               learner  -\n", "", "GET /v1/raft/peers")
	s.check(t, "raft list-peers -o jsonl", 0, ""+
		`{"node":"edge-1","id":"01a","address":"10.0.0.11:7946","role":"voter","leader":true}`+"\n"+
		`{"node":"edge-2","id":"01b","address":"","role":"learner","leader":false}`+"\n", "", "GET /v1/raft/peers")
}

func TestStatusOfACluster(t *testing.T) {
	status := api.ClusterStatus{ID: "c1", Role: "voter", Leader: "edge-2", Alive: 3, Members: 3, Voters: 3, Applied: "1.42", Tolerance: "3 voters: writes outlive the loss of 1"}
	for _, test := range []struct {
		change func(*api.ClusterStatus)
		want   string
	}{
		{func(*api.ClusterStatus) {}, "role: voter, led by edge-2|members: 3 of 3 alive|voters: 3 voters: writes outlive the loss of 1|applied: revision 42, the newest that is known"},
		{
			func(c *api.ClusterStatus) {
				c.Leader, c.Alive, c.Lag, c.LagMs, c.Stale, c.Alarms = "", 1, 2, 8100, true, []string{"edge-3 has another history"}
			},
			"role: voter, and no leader is known|members: 1 of 3 alive|voters: 3 voters: writes outlive the loss of 1|" +
				"applied: revision 42, 2 revisions behind since 8.1 s|" +
				"stale: yes: no leader was heard of for a while, what is served may be old|alarm: edge-3 has another history",
		},
	} {
		c := status
		test.change(&c)
		var got []string
		for _, row := range clusterRows(&c) {
			got = append(got, row[0]+": "+row[1])
		}
		if text := strings.Join(got, "|"); text != "cluster: c1|"+test.want {
			t.Errorf("got  %s\nwant cluster: c1|%s", text, test.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for ms, want := range map[int64]string{0: "0 ms", 999: "999 ms", 1000: "1 s", 1099: "1 s", 1100: "1.1 s", 5003: "5 s", 59_950: "59.9 s"} {
		if got := span(ms); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
}
