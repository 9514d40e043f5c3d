package agenttest_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/agent/api"
	"grapevine/agent/cluster"
	"grapevine/agent/identity"
	"grapevine/kv/memnet"
)

// An edge writes configuration, and changes nothing of the cluster: else who breaks
// into it would make himself a voter.
func TestEdgesDoNotGovern(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		network := memnet.New(1)
		s := agenttest.NewSimulation(t, network, "10.0.0")
		voter := s.Add()
		voter.Change = func(o *cluster.Options) { o.API = http.NotFoundHandler() } // what comes through is answered 404
		voter.Start()
		s.AwaitLeader(10 * time.Second)
		var dir string
		edge := s.Add().Joins(voter.Token("edge"))
		edge.Change = func(o *cluster.Options) { dir = o.Dir }
		edge.Start()
		edge.Await("to be in", 10*time.Second, func() bool { return edge.Alive() == 2 })
		edge.MustSet("app/a", "1")

		ctx, cancel := within(10 * time.Second)
		defer cancel()
		var refused *api.RefusedError
		if _, _, err := edge.Cluster.CreateToken(ctx, api.TokenWish{Role: "voter"}); !errors.As(err, &refused) || !strings.Contains(err.Error(), voter.IP) {
			t.Errorf("a token made on an edge: %v", err)
		}
		if err := edge.Cluster.ForceLeave(ctx, voter.Name, true); !errors.As(err, &refused) {
			t.Errorf("a voter revoked by an edge: %v", err)
		}
		if err := edge.Cluster.Demote(ctx, voter.Name); !errors.As(err, &refused) {
			t.Errorf("a voter demoted by an edge: %v", err)
		}
		// What it asks by itself, without its agent in between.
		if _, err := edge.Set("cluster/tokens/0123456789abcdef", "{}", 10*time.Second); !errors.As(err, &refused) {
			t.Errorf("a token's record written by an edge: %v", err)
		}
		if _, err := edge.Delete("cluster/denied/01h", 10*time.Second); !errors.As(err, &refused) {
			t.Errorf("a revocation undone by an edge: %v", err)
		}
		id, err := identity.Open(identity.Options{Path: filepath.Join(dir, "identity"), Node: edge.ID})
		if err != nil {
			t.Fatal(err)
		}
		for path, body := range map[string]string{
			"/node/voters": `{"verb":"remove","node":"` + edge.ID + `"}`,
			"/v1/tokens":   `{"role":"voter"}`,
			"/v1/leave":    `{}`,
		} {
			if status, answer := askAs(t, network.Host(edge.IP), id, voter.IP, path, body); status != http.StatusConflict || !strings.Contains(answer, "is an edge") {
				t.Errorf("%s: %d %s", path, status, answer)
			}
		}
		probe := `[{"node":"` + edge.ID + `","address":"10.0.0.77:22"}]`
		if _, answer := askAs(t, network.Host(edge.IP), id, voter.IP, "/node/probe", probe); !strings.Contains(answer, "does not know it at 10.0.0.77:22") {
			t.Errorf("a probe of an address that is no node's: %s", answer)
		}
	})
}

// askAs posts to a node's peer protocol as the one whose identity it is.
func askAs(t *testing.T, host *memnet.Host, id *identity.Identity, ip, path, body string) (int, string) {
	t.Helper()
	raw, err := host.Dial(t.Context(), ip+":7946")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	conn, _, err := id.Client(t.Context(), raw, identity.ProtocolPeer, "")
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, "http://node"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if err := request.Write(conn); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}
