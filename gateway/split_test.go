package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"grapevine/kv"
)

// splitting serves a route that is split between clusters stable and canary, each
// of one backend.
func splitting(t *testing.T) *fixture {
	f := start(t, "")
	for _, id := range []string{"stable", "canary"} {
		f.put("gateway/clusters/"+id, `{"destinations":{"a":"`+newMoody(t, id).url+`"}}`)
	}
	return f
}

func (f *fixture) divide(stable, canary int, more string) {
	f.put("gateway/routes/r", fmt.Sprintf(`{"path":"/r","split":[{"cluster":"stable","weight":%d},{"cluster":"canary","weight":%d%s`, stable, canary, more))
}

func TestSplitByWeight(t *testing.T) {
	f := splitting(t)
	for _, row := range []struct{ stable, canary int }{{95, 5}, {1, 1}, {0, 7}, {1, 0}} {
		f.divide(row.stable, row.canary, "}]}")
		canary, n := 0, row.stable+row.canary
		for range n {
			if f.get("/r").body == "canary" {
				canary++
			}
		}
		if canary != row.canary {
			t.Errorf("%d to %d: the canary got %d of %d", row.stable, row.canary, canary, n)
		}
	}
}

// Turns go on when the route changes, and nobody who only looks takes one.
func TestSplitTakesTurns(t *testing.T) {
	f := splitting(t)
	came := ""
	for i := range 6 {
		f.divide(1, 1, fmt.Sprintf(`}],"description":"version %d"}`, i))
		foretold := "stable"
		for range 3 {
			if foretold = "stable"; f.asking("GET /r").Split[1].Chosen {
				foretold = "canary"
			}
		}
		body := f.get("/r").body
		if foretold != body {
			t.Errorf("it came to %s; %s was foretold", body, foretold)
		}
		came += body[:1]
	}
	if came != "scscsc" && came != "cscscs" {
		t.Errorf("they came to %s", came)
	}
}

func TestSplitByHeaderAndCookie(t *testing.T) {
	f := splitting(t)
	for _, row := range []struct{ conditions, request, want string }{
		{`"headers":[{"name":"X-Canary","value":"yes"}]`, "X-Canary: yes", "canary"},
		{`"headers":[{"name":"X-Canary","value":"yes"}]`, "x-canary: no", "stable"},
		{`"headers":[{"name":"X-Canary","value":"yes"}]`, "X-Canary: yes\nX_Canary: no", "stable"},
		{`"headers":[{"name":"X-Canary","value":"yes"}]`, "X-Canary: yes\nX_Canary: yes", "stable"}, // together it is "yes, yes"
		{`"headers":[{"name":"X-Canary","present":true}]`, "A: b", "stable"},
		{`"cookies":[{"name":"canary","value":"1"}]`, "Cookie: a=b; canary=1", "canary"},
		{`"cookies":[{"name":"canary","value":"1"}]`, "Cookie: canary=2; canary=1", "stable"},
		{`"cookies":[{"name":"canary","present":true}]`, "Cookie: canary=", "canary"},
		{`"cookies":[{"name":"canary","present":true}]`, "Cookie: Canary=1", "stable"},
		{`"cookies":[{"name":"team","regex":"qa-.*"}]`, "Cookie: team=qa-7", "canary"},
		{`"cookies":[{"name":"canary","value":"1"}],"headers":[{"name":"X-Canary","value":"yes"}]`, "Cookie: canary=1", "stable"},
		{`"cookies":[{"name":"canary","value":"1"}],"headers":[{"name":"X-Canary","value":"yes"}]`, "Cookie: canary=1\nX-Canary: yes", "canary"},
	} {
		f.divide(1, 0, ","+row.conditions+"}]}")
		for range 2 {
			if got := f.get("/r", row.request).body; got != row.want {
				t.Errorf("%s: %q came to %s", row.conditions, row.request, got)
			}
		}
	}
}

// A client stays on its part while weights stay, and when that of the canary
// rises clients move to it alone.
func TestSplitKeepsClients(t *testing.T) {
	f := splitting(t)
	at := func() map[int]string {
		came := map[int]string{}
		for i := range 200 {
			came[i] = f.get("/r", fmt.Sprintf("Cookie: sid=%d", i)).body
		}
		return came
	}
	f.divide(90, 10, `}],"splitOn":"cookie:sid"}`)
	first := at()
	f.get("/r") // without a place it takes a turn, after which the turns are others' than before
	again := at()
	f.divide(70, 30, `}],"splitOn":"cookie:sid"}`)
	later := at()
	canary := map[string]int{}
	for i := range first {
		if first[i] != again[i] {
			t.Errorf("client %d came to %s and then to %s", i, first[i], again[i])
		}
		if first[i] == "canary" && later[i] != "canary" {
			t.Errorf("client %d left the canary", i)
		}
		canary["first "+first[i]]++
		canary["later "+later[i]]++
	}
	if n := canary["first canary"]; n < 5 || n > 40 {
		t.Errorf("%d of 200 are on the canary with 10 %%", n)
	}
	if n := canary["later canary"]; n < 35 || n > 90 {
		t.Errorf("%d of 200 are on the canary with 30 %%", n)
	}
}

// A part whose cluster has no good version takes nothing, one whose cluster
// fails fails by itself, and a cluster that is not there is refused.
func TestSplitInTrouble(t *testing.T) {
	f := splitting(t)
	f.divide(1, 1, `,"headers":[{"name":"X-Canary","value":"yes"}]}]}`)
	f.put("gateway/clusters/canary", `{"destinations":{}}`)
	codes := map[int]int{}
	for range 10 {
		codes[f.get("/r").StatusCode]++
	}
	if codes[200] != 5 || codes[503] != 5 {
		t.Errorf("answers %v", codes)
	}
	f.txn(kv.Delete("gateway/routes/r"), kv.Delete("gateway/clusters/canary"))
	f.put("gateway/clusters/canary", `{"fromTheFuture":1}`)
	f.divide(1, 1, `,"headers":[{"name":"X-Canary","value":"yes"}]}]}`)
	for range 4 {
		if got := f.get("/r", "X-Canary: yes"); got.body != "stable" {
			t.Errorf("with a broken cluster: %d %s", got.StatusCode, got.body)
		}
	}
	f.put("gateway/clusters/stable", `{"fromTheFuture":1,"tls":{"serverName":"h"}}`)
	f.delete("gateway/clusters/stable")
	if err := f.check(kv.Put("gateway/routes/q", []byte(`{"path":"/q","split":[{"cluster":"canary","weight":1},{"cluster":"nowhere","weight":1}]}`))); err == nil {
		t.Error("a split with a cluster that is not there was taken")
	} else if want := "split[1].cluster \"nowhere\": no such cluster"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v; want %s", err, want)
	}
}
