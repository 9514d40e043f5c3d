package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/gateway"
	"grapevine/gateway/spec"
)

// clusterOf is the value of a cluster; a destination without a weight has none
// given.
func clusterOf(policy string, weights map[string]int, addresses map[string]string) string {
	destinations := map[string]any{}
	for name, address := range addresses {
		if weight, given := weights[name]; given {
			destinations[name] = map[string]any{"address": address, "weight": weight}
		} else {
			destinations[name] = address
		}
	}
	cluster := map[string]any{"destinations": destinations}
	balancing, hashOn, _ := strings.Cut(policy, " ")
	if balancing != "" {
		cluster["loadBalancing"] = balancing
	}
	if hashOn != "" {
		cluster["hashOn"] = hashOn
	}
	value, err := json.Marshal(cluster)
	if err != nil {
		panic(err)
	}
	return string(value)
}

// all policies, as clusterOf reads them.
var policies = []string{"", "roundRobin", "random", "leastRequest", "powerOfTwo", "latency", "hash", "hash path", "hash header:X-Key"}

// count asks n times, one after the other has ended, and counts who answered.
func (f *fixture) count(n int, target string) map[string]int {
	f.t.Helper()
	counts := map[string]int{}
	for range n {
		counts[f.get(target).outcome(f.t)]++
		f.idle(target)
	}
	return counts
}

// inFlight is what each destination of a route's cluster has now, by address.
func (f *fixture) inFlight(target string) map[string]int64 {
	f.t.Helper()
	loads := map[string]int64{}
	for _, d := range f.explain(target).Forward.Destinations {
		loads[d.Address] += d.InFlight
	}
	return loads
}

func (f *fixture) explain(target string) gateway.Explanation {
	f.t.Helper()
	e, err := f.gateway.Table().Explain(gateway.Question{URL: target})
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

// idle waits until no destination of a route's cluster has a request.
func (f *fixture) idle(target string) {
	f.t.Helper()
	deadline := time.After(patience)
	for {
		loads, busy := f.inFlight(target), int64(0)
		for _, n := range loads {
			busy += max(n, -n)
		}
		if busy == 0 {
			return
		}
		select {
		case <-deadline:
			f.t.Fatalf("loads stay at %v", loads)
		case <-time.After(time.Millisecond):
		}
	}
}

// inn is a set of backends that keep each request with X-Hold until it is let go.
type inn struct {
	addresses map[string]string
	arrived   chan string              // the name of the backend that keeps one
	leave     map[string]chan struct{} // by the name of the backend
}

func openInn(t *testing.T, names ...string) *inn {
	n := &inn{map[string]string{}, make(chan string), map[string]chan struct{}{}}
	for _, name := range names {
		n.leave[name] = make(chan struct{})
		n.addresses[name] = serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Hold") != "" {
				n.arrived <- name
				select {
				case <-n.leave[name]:
				case <-r.Context().Done(): // the test has failed
				}
			}
			json.NewEncoder(w).Encode(seen{Backend: name, Target: r.RequestURI})
		})
	}
	return n
}

// hold sends a request that is kept, and tells by whom. release lets it go and
// wants its answer.
func (n *inn) hold(f *fixture, target string) (by string, release func()) {
	f.t.Helper()
	end := f.begin(target, "X-Hold: 1")
	select {
	case by = <-n.arrived:
	case <-time.After(patience):
		f.t.Fatal("the request did not arrive")
	}
	return by, func() {
		f.t.Helper()
		n.leave[by] <- struct{}{}
		if got := end().outcome(f.t); got != by {
			f.t.Errorf("%s kept it, and %s answered", by, got)
		}
	}
}

func TestWeights(t *testing.T) {
	f := start(t, "")
	addresses := map[string]string{"a": backend(t, "a"), "b": backend(t, "b"), "c": backend(t, "c"), "none": backend(t, "none")}
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c"}`)
	for _, policy := range []string{"", "roundRobin", "leastRequest", "hash header:X-Key"} { // each takes turns when nothing else decides
		f.put("gateway/clusters/c", clusterOf(policy, map[string]int{"a": 3, "b": 2, "none": 0}, addresses))
		for range 2 {
			if got, want := f.count(6, "/"), (map[string]int{"a": 3, "b": 2, "c": 1}); !maps.Equal(got, want) {
				t.Errorf("%q: %v; want %v in any six in a row", policy, got, want)
			}
		}
	}
	// By chance: bounds that are missed less than once in 10^15 runs.
	for _, policy := range []string{"random", "powerOfTwo"} {
		f.put("gateway/clusters/c", clusterOf(policy, map[string]int{"a": 8, "none": 0}, map[string]string{"a": addresses["a"], "b": addresses["b"], "none": addresses["none"]}))
		got := f.count(300, "/")
		if got["none"] > 0 || got["a"] < 200 || got["b"] < 1 || got["a"]+got["b"] != 300 {
			t.Errorf("%s: %v; want about 267 at a and 33 at b", policy, got)
		}
	}
}

func TestLeastRequestAvoidsTheBusy(t *testing.T) {
	f := start(t, "")
	n := openInn(t, "a", "b", "c")
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c"}`)
	for _, policy := range []string{"leastRequest", "powerOfTwo"} {
		f.put("gateway/clusters/c", clusterOf(policy, nil, n.addresses))
		first, release1 := n.hold(f, "/")
		for range 12 {
			if got := f.get("/").outcome(t); got == first {
				t.Errorf("%s: %s got another one while it was busy", policy, got)
			}
			f.settle(t, n, first)
		}
		second, release2 := n.hold(f, "/")
		if second == first {
			t.Errorf("%s: %s got the second", policy, second)
		}
		if policy == "leastRequest" { // powerOfTwo may look at the two that are busy
			f.settle(t, n, first, second)
			for range 6 {
				if got := f.get("/").outcome(t); got == first || got == second {
					t.Errorf("%s: %s got another one while it was busy", policy, got)
				}
				f.settle(t, n, first, second)
			}
		}
		release1()
		release2()
		f.idle("/")
		if got := f.count(40, "/"); len(got) != 3 {
			t.Errorf("%s: %v once all were idle; want all three", policy, got)
		}
	}
}

// settle waits until exactly the named backends of n keep a request.
func (f *fixture) settle(t *testing.T, n *inn, names ...string) {
	t.Helper()
	want := map[string]int64{}
	for name, address := range n.addresses {
		want[address] = 0
		if slices.Contains(names, name) {
			want[address] = 1
		}
	}
	deadline := time.After(patience)
	for {
		got := f.inFlight("/")
		if maps.Equal(got, want) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("loads %v; want %v", got, want)
		case <-time.After(time.Millisecond):
		}
	}
}

// A key stays with its backend, keys spread over all of them, and a request
// without the key takes turns.
func TestHashOn(t *testing.T) {
	f := start(t, "config: {headers: {trustedProxies: [loopback]}}")
	addresses := map[string]string{"a": backend(t, "a"), "b": backend(t, "b"), "c": backend(t, "c")}
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c"}`)
	for _, tt := range []struct {
		policy  string
		with    func(key int) string // a request with the key
		same    func(key int) string // another one with the same
		without string               // empty when every request has one
	}{
		{"hash", func(k int) string { return fmt.Sprintf("GET /\nX-Forwarded-For: 10.0.0.%d", k) }, func(k int) string {
			return fmt.Sprintf("GET /x?y\nX-Forwarded-For: 6.6.6.6, ::ffff:10.0.0.%d", k)
		}, ""},
		{"hash ip", func(k int) string { return fmt.Sprintf("GET /\nX-Forwarded-For: 2001:db8::%d", k) }, func(k int) string {
			return fmt.Sprintf("POST /\nX-Forwarded-For: 2001:0db8:0::%d", k)
		}, ""},
		{"hash path", func(k int) string { return fmt.Sprintf("GET /p/%d", k) }, func(k int) string { return fmt.Sprintf("GET /p/%d?q=%d", k, k) }, ""},
		{"hash header:X-Key", func(k int) string { return fmt.Sprintf("GET /\nX-Key: %d", k) }, func(k int) string { return fmt.Sprintf("GET /x\nx-key: %d\nX-Other: 1", k) }, "GET /\nX_Key: 1\nX-Key:"},
		{"hash cookie:id", func(k int) string { return fmt.Sprintf("GET /\nCookie: id=%d", k) }, func(k int) string { return fmt.Sprintf("GET /\nCookie: a=1; xid=2; id=%d; id=7", k) }, "GET /\nCookie: ID=1; idx=2"},
		{"hash query:id", func(k int) string { return fmt.Sprintf("GET /?id=%d", k) }, func(k int) string { return fmt.Sprintf("GET /x?a&%%69d=%d&id=7", k) }, "GET /?ID=1&a=id"},
	} {
		f.put("gateway/clusters/c", clusterOf(tt.policy, nil, addresses))
		keys := map[string]int{}
		for key := 1; key <= 60; key++ {
			got := f.send(tt.with(key)).outcome(t)
			if again := f.send(tt.same(key)).outcome(t); again != got {
				t.Errorf("%s: %q went to %s, %q to %s", tt.policy, tt.with(key), got, tt.same(key), again)
			}
			keys[got]++
		}
		if len(keys) != 3 {
			t.Errorf("%s: 60 keys went to %v; want all three", tt.policy, keys)
		}
		if tt.without == "" {
			continue
		}
		turns := map[string]int{}
		for range 6 {
			turns[f.send(tt.without).outcome(t)]++
		}
		if want := (map[string]int{"a": 2, "b": 2, "c": 2}); !maps.Equal(turns, want) {
			t.Errorf("%s: six without the key went to %v; want %v", tt.policy, turns, want)
		}
	}
}

// A hash looks at the request as the backend gets it.
func TestHashAfterChanges(t *testing.T) {
	f := start(t, "")
	addresses := map[string]string{"a": backend(t, "a"), "b": backend(t, "b"), "c": backend(t, "c")}
	f.put("gateway/clusters/c", clusterOf("hash header:X-Key", nil, addresses))
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c","transforms":{"request":{"set":{"X-Key":"one"}}}}`)
	found := map[string]int{}
	for key := range 20 {
		found[f.get("/", fmt.Sprint("X-Key: ", key)).outcome(t)]++
	}
	if len(found) != 1 {
		t.Errorf("one key went to %v", found)
	}
}

// A refused connection is nobody's loss, whoever is asked first: the request goes
// on to one that is up, but never to one of weight 0.
func TestFailover(t *testing.T) {
	f := start(t, "")
	addresses := map[string]string{"a": unused(t), "b": unused(t), "c": unused(t), "up": backend(t, "up"), "zero": backend(t, "zero")}
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c"}`)
	for _, policy := range policies {
		f.put("gateway/clusters/c", clusterOf(policy, map[string]int{"b": 5, "zero": 0}, addresses))
		for key := range 8 {
			got := f.ask("POST", fmt.Sprint("/", key), fmt.Sprint("X-Key: ", key), "Content-Length: 5", "", "hello").seen(t)
			if got.Backend != "up" || got.Body != "hello" {
				t.Errorf("%q: got %+v", policy, got)
			}
		}
		f.idle("/")
	}
	delete(addresses, "up")
	for _, policy := range policies {
		f.put("gateway/clusters/c", clusterOf(policy, map[string]int{"zero": 0}, addresses))
		f.get("/", "X-Key: 1").problem(t, 502, "connect_failed")
		f.idle("/")
	}
}

// The next best for a key is the same for every request that has it.
func TestFailoverOfHash(t *testing.T) {
	f := start(t, "")
	addresses := map[string]string{"down": unused(t)}
	for _, name := range []string{"a", "b", "c"} {
		addresses[name] = backend(t, name)
	}
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c"}`)
	f.put("gateway/clusters/c", clusterOf("hash header:X-Key", nil, addresses))
	first := map[string]string{}
	for key := range 40 {
		field := fmt.Sprint("X-Key: ", key)
		first[field] = f.get("/", field).outcome(t)
	}
	f.put("gateway/clusters/c", clusterOf("hash header:X-Key", map[string]int{"down": 0}, addresses))
	for field, want := range first {
		if got := f.get("/", field).outcome(t); got != want {
			t.Errorf("%s went to %s, and to %s once the one that is down had gone", field, want, got)
		}
	}
}

func TestNoWeightAnywhere(t *testing.T) {
	f := start(t, "")
	addresses := map[string]string{"a": backend(t, "a"), "b": backend(t, "b")}
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c"}`)
	for _, policy := range policies {
		f.put("gateway/clusters/c", clusterOf(policy, map[string]int{"a": 0, "b": 0}, addresses))
		got := f.get("/", "X-Key: 1")
		got.problem(t, 503, "no_destination")
		if got.Header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
	}
	f.put("gateway/clusters/c", clusterOf("", map[string]int{"a": 0}, addresses))
	if got := f.count(3, "/"); got["b"] != 3 {
		t.Errorf("%v; want all at b", got)
	}
}

// swaps are changes that have nothing to do with the cluster c, of every kind of
// table that is made: from what changed, and anew.
func swaps(t *testing.T, f *fixture) []func() {
	return []func(){
		func() { f.put("gateway/routes/other", route("/other", "http://127.0.0.1:1")) },
		func() { f.put("gateway/clusters/other", `{"destinations":{"a":"http://127.0.0.1:1"}}`) },
		func() { f.put("gateway/config/timeouts", `{"timeout":"20s"}`) },
		func() {
			if err := f.gateway.SetStatic(parse(t, "routes: {more: {path: /more, backends: ['http://127.0.0.1:1']}}")); err != nil {
				t.Fatal(err)
			}
		},
		func() { f.delete("gateway/routes/other") },
		func() { f.put("gateway/routes/broken", `{"path":"/broken","fromTheFuture":1}`) },
	}
}

func TestTurnsGoOnAcrossSwaps(t *testing.T) {
	f := start(t, "")
	addresses := map[string]string{"a": backend(t, "a"), "b": backend(t, "b"), "c": backend(t, "c")}
	f.put("gateway/clusters/c", clusterOf("", nil, addresses))
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
	f.put("gateway/routes/own", route("/own", addresses["a"], addresses["b"], addresses["c"]))
	named, own := "", ""
	for _, swap := range swaps(t, f) {
		named += f.get("/r").outcome(t)
		own += f.get("/own").outcome(t)
		swap()
	}
	if named != "abcabc" || own != "abcabc" {
		t.Errorf("turns %s and %s; want abcabc", named, own)
	}
}

// A request that began before a swap counts after it.
func TestLoadsGoOnAcrossSwaps(t *testing.T) {
	f := start(t, "")
	n := openInn(t, "a", "b")
	f.put("gateway/clusters/c", clusterOf("leastRequest", nil, n.addresses))
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c"}`)
	busy, release := n.hold(f, "/")
	more := append(swaps(t, f),
		func() { f.put("gateway/routes/r", `{"path":"/{**rest}","cluster":"c","timeout":"25s"}`) },
		func() {
			f.put("gateway/clusters/c", clusterOf("leastRequest", map[string]int{"a": 2, "b": 2}, n.addresses))
		},
	)
	for i, swap := range more {
		swap()
		f.settle(t, n, busy)
		for range 4 {
			if got := f.get("/").outcome(t); got == busy {
				t.Errorf("swap %d: %s got another one while it was busy", i, got)
			}
			f.settle(t, n, busy)
		}
	}
	release()
	f.idle("/")
	if got := f.count(8, "/"); len(got) != 2 {
		t.Errorf("%v once both were idle", got)
	}
}

// The same for the cluster that a route's own backends make.
func TestLoadsOfBackendsGoOn(t *testing.T) {
	f := start(t, "")
	n := openInn(t, "a", "b")
	f.put("gateway/clusters/r", `{"loadBalancing":"leastRequest"}`)
	f.put("gateway/routes/r", route("/{**r}", n.addresses["a"], n.addresses["b"]))
	busy, release := n.hold(f, "/")
	f.put("gateway/routes/r", route("/{**rest}", n.addresses["b"], n.addresses["a"]))
	f.settle(t, n, busy)
	f.put("gateway/clusters/r", `{"loadBalancing":"leastRequest","resilience":{"timeout":"20s"}}`)
	f.settle(t, n, busy)
	for range 4 {
		if got := f.get("/").outcome(t); got == busy {
			t.Errorf("%s got another one while it was busy", got)
		}
		f.settle(t, n, busy)
	}
	release()
	f.idle("/")
}

// However a request ends, its destination has it no more.
func TestLoadsEnd(t *testing.T) {
	f := start(t, "")
	static := func(bytes string) string {
		return tcp(t, func(conn net.Conn) {
			defer conn.Close()
			http.ReadRequest(bufio.NewReader(conn))
			io.WriteString(conn, bytes)
		})
	}
	held := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held/body" {
			io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	})
	values := map[string]string{}
	for id, to := range map[string]string{
		"up": backend(t, "up"), "garbage": static("no http\r\n\r\n"), "nothing": static(""), "short": static("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
		"empty": static("HTTP/1.1 204 No Content\r\n\r\n"), "same": static("HTTP/1.1 304 Not Modified\r\n\r\n"), "down": unused(t),
	} {
		values[id] = route("/"+id, to)
	}
	values["held"] = route("/held/{how}", held)
	values["late"] = forwarding(`"path":"/late","timeout":"10ms"`, held)
	values["changed"] = forwarding(`"path":"/changed","transforms":{"query":{"remove":["a"]}}`, held)
	f.routes(values)
	for _, request := range []string{
		"GET /up", "POST /up", "HEAD /up", "GET /garbage", "GET /nothing", "GET /empty", "GET /same", "GET /down", "GET /late", "GET /changed?a;b",
	} {
		f.send(request)
		path, _, _ := strings.Cut(strings.Fields(request)[1], "?")
		f.idle(path)
	}
	for _, target := range []string{"/short", "/held/head", "/held/body"} { // the last two until the client leaves
		conn, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		switch target {
		case "/short":
			io.Copy(io.Discard, conn)
		case "/held/body":
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			fallthrough
		default:
			for deadline := time.Now().Add(patience); f.inFlight(target)[held] != 1; {
				if time.Now().After(deadline) {
					t.Fatalf("%s: load %v; want 1", target, f.inFlight(target))
				}
				<-time.After(time.Millisecond)
			}
			conn.Close()
		}
		f.idle(target)
	}
}

// What Explain says of a cluster is in the words of its configuration.
func TestExplainedBalancing(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c"}`)
	address := backend(t, "a")
	for policy, want := range map[string]string{
		"": "roundRobin", "roundRobin": "roundRobin", "random": "random", "leastRequest": "leastRequest", "powerOfTwo": "powerOfTwo", "latency": "latency",
		"hash": "hash on ip", "hash path": "hash on path", "hash cookie:id": "hash on cookie:id",
	} {
		f.put("gateway/clusters/c", clusterOf(policy, map[string]int{"a": 7}, map[string]string{"a": address}))
		got := f.explain("/").Forward
		if got.Balancing != want || got.Cluster != "c" || !slices.Equal(got.Destinations, []gateway.ForwardDestination{{Address: address, Weight: 7, Health: "unknown", Use: "yes"}}) {
			t.Errorf("%q: %+v; want %s", policy, got, want)
		}
	}
	for _, policy := range policies { // the words are all of them
		if _, err := spec.Decode("gateway/clusters/c", []byte(clusterOf(policy, nil, map[string]string{"a": address})), spec.FormJSON); err != nil {
			t.Error(err)
		}
	}
}

// By latency: a destination that is slow gets little, and so does one that answers
// at once that it can't.
func TestLatencyAvoidsTheSlowAndTheFailing(t *testing.T) {
	f := start(t, "")
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-r.Context().Done():
		}
		json.NewEncoder(w).Encode(seen{Backend: "slow"})
	})
	failing := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	f.put("gateway/routes/r", `{"path":"/{**r}","cluster":"c"}`)
	for name, bad := range map[string]string{"slow": slow, "status 503": failing} {
		f.put("gateway/clusters/c", fmt.Sprintf(`{"loadBalancing":"latency","destinations":{"bad":%q,"good":%q},"health":{"passive":{"consecutiveFailures":100}}}`,
			bad, backend(t, "good")))
		// One tells it; on a busy host the good one is slow at times, and each time the bad one counts twice as much.
		if got := f.count(40, "/"); got["good"] < 34 {
			t.Errorf("beside %s: %v of 40; want all but a few at good", name, got)
		}
	}
	// What is known stays through a change of the cluster.
	value := `{"loadBalancing":"latency","description":"%s","destinations":{"bad":%q,"good":%q}}`
	good := backend(t, "good")
	f.put("gateway/clusters/c", fmt.Sprintf(value, "", slow, good))
	f.count(4, "/")
	f.put("gateway/clusters/c", fmt.Sprintf(value, "changed", slow, good))
	if got := f.count(20, "/"); got["slow"] > 0 {
		t.Errorf("after a change of the cluster: %v; want none at the slow one, which is known", got)
	}
}
