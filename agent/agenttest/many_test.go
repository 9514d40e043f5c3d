package agenttest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/agent/api"
)

// joinsWithin is the goal for a new node of a cluster with 100,000 keys.
const joinsWithin = 10 * time.Second

// TestManyKeysLetANodeJoinAndServe has a node join a cluster of 100,000 keys, and measures from its start until
// it serves the last of their routes. In real time, on real sockets and disks. Routes cost more than other keys,
// since the table is made of them: with nothing but routes it takes longer, where the processors are few.
func TestManyKeysLetANodeJoinAndServe(t *testing.T) {
	for _, tt := range []struct {
		name         string
		keys, routes int
		within       time.Duration
	}{
		{"1,000 routes among 100,000 keys", 100_000, 1_000, joinsWithin},
		{"100,000 routes", 100_000, 100_000, agenttest.Patience},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if os.Getenv("GRAPEVINE_LONG") == "" || raceEnabled {
				tt.keys, tt.routes = tt.keys/50, tt.routes/50
			}
			first := agenttest.Run(t, agenttest.Config(t, 1))
			first.Await("a leader", func() bool { return first.Leader() != "" })
			writeMany(first, tt.keys, tt.routes)
			last := fmt.Sprint(tt.routes - 1)
			serves := func(n *agenttest.Node) func() bool {
				return func() bool {
					status, body := n.Get("/many/" + last)
					return status == http.StatusOK && body == last
				}
			}
			first.Await("the first serves all", serves(first))
			config := agenttest.Config(t, 2)
			config.Join = []string{first.Token("edge")}
			began := time.Now()
			late := agenttest.Run(t, config)
			late.Await("the new node has all", func() bool {
				status, _ := late.Call(http.MethodGet, fmt.Sprintf("/v1/kv/app/k%d", tt.keys), nil, nil)
				return status == http.StatusOK
			})
			has := time.Since(began)
			late.Await("the new node serves all", serves(late))
			took := time.Since(began)
			t.Logf("%d keys, %d of them routes: a new node has all %v after its start, and serves them after %v", tt.keys, tt.routes, has, took)
			if took > tt.within {
				t.Errorf("it took %v, want at most %v", took, tt.within)
			}
		})
	}
}

// writeMany writes keys, of which the first are routes, in transactions of the largest size; the last key of all is
// app/k and their number.
func writeMany(n *agenttest.Node, keys, routes int) {
	const most = 10_000
	for from := 0; from <= keys; from += most {
		var txn api.Txn
		for i := from; i < min(from+most, keys+1); i++ {
			put := &api.PutOp{Key: fmt.Sprintf("app/k%d", i), Value: json.RawMessage(fmt.Sprintf(`"%-200d"`, i))}
			if i < routes {
				put = &api.PutOp{Key: fmt.Sprintf("gateway/routes/r%d", i), Value: json.RawMessage(fmt.Sprintf(`{"path":"/many/%d","respond":{"status":200,"body":"%d"}}`, i, i))}
			}
			txn.Then = append(txn.Then, api.Op{Put: put})
		}
		n.MustCall(http.MethodPost, "/v1/txn", txn, nil)
	}
}
