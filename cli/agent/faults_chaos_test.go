package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wildFaults are what a backend of the chaos does instead of answering well.
var wildFaults = []string{"hang", "reset", "500", "503", "slow", "half body", "half chunk", "garbage"}

// wild is a backend whose fault is set while it serves. The empty one is none.
type wild struct {
	url   string
	fault atomic.Value // string
}

func newWild(t *testing.T) *wild {
	w := &wild{}
	w.fault.Store("")
	server := httptest.NewServer(w)
	w.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return w
}

func (b *wild) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch fault := b.fault.Load().(string); fault {
	case "hang":
		<-r.Context().Done()
	case "reset":
		reset(w, "")
	case "500", "503":
		http.Error(w, fault, map[string]int{"500": 500, "503": 503}[fault])
	case "slow":
		select {
		case <-r.Context().Done():
		case <-time.After(300 * time.Millisecond):
			io.WriteString(w, "fine")
		}
	case "half body":
		reset(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
	case "half chunk":
		reset(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
	case "garbage":
		reset(w, "no http at all\r\n\r\n")
	default:
		io.WriteString(w, "fine")
	}
}

const (
	chaosClusters = 5
	chaosWell     = 2 // of them, c0 and c1
	chaosClients  = 3 // of each
	chaosBackends = 3 // of each
)

// chaos is an agent with five clusters, and what has been done to it.
type chaos struct {
	*process
	t        *testing.T
	chance   *rand.Rand
	backends [chaosClusters][]*wild
	done     map[string]int
}

// Five clusters: the backends of three have random faults, while an operator changes all five and what stands beside them,
// ends breakers and begins maintenances. The two that are well fail no request, and need no attempt a second time.
func TestFaultsStayInTheirClusters(t *testing.T) {
	duration := 4 * time.Second
	if long {
		duration = 60 * time.Second
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &chaos{process: startAgent(t, t.TempDir()), t: t, chance: rand.New(rand.NewPCG(seed, 0)), done: map[string]int{}}
	for i := range chaosClusters {
		for range chaosBackends {
			c.backends[i] = append(c.backends[i], newWild(t))
		}
		c.put(clusterID(i), c.cluster(i))
		timeout := "300ms"
		if i < chaosWell {
			timeout = "20s" // for a busy machine to have no say
		}
		c.put(fmt.Sprintf("routes/r%d", i), fmt.Sprintf(`{"path":"/c%d/{**rest}","cluster":"c%d","timeout":%q,
			"retry":{"attempts":2,"on":["reset","timeout","503"]},"limits":{"maxConcurrent":100}}`, i, i, timeout))
	}

	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var clients sync.WaitGroup
	var sent, failed, troubled atomic.Int64
	for i := range chaosClusters {
		for range chaosClients {
			clients.Go(func() {
				client := &steadyClient{address: c.proxy}
				defer client.hangUp()
				for ctx.Err() == nil {
					err := client.ask(fmt.Sprintf("/c%d/x", i))
					switch {
					case i >= chaosWell && err != nil:
						troubled.Add(1)
					case i < chaosWell:
						sent.Add(1)
					}
					if i < chaosWell && err != nil && failed.Add(1) < 10 {
						t.Errorf("c%d is well, and: %v", i, err)
					}
				}
			})
		}
	}
	for ticker := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; {
		select {
		case <-ticker.C:
			c.inject()
			c.change()
		case <-ctx.Done():
			ticker.Stop()
		}
	}
	clients.Wait()
	c.checkCounts()
	var list []string
	for what, n := range c.done {
		list = append(list, fmt.Sprintf("%d × %s", n, what))
	}
	slices.Sort(list)
	t.Logf("done: %s", strings.Join(list, ", "))
	t.Logf("%d requests to the clusters that are well, %d of them failed; %d failed in the others", sent.Load(), failed.Load(), troubled.Load())
	if sent.Load() < 100 || troubled.Load() < 10 {
		t.Error("that was no chaos")
	}
}

func clusterID(i int) string { return fmt.Sprintf("clusters/c%d", i) }

// cluster is one of various policies of a cluster, some of which leave a backend out.
func (c *chaos) cluster(i int) string {
	var destinations []string
	for n, b := range c.backends[i] {
		if n == 0 || c.chance.IntN(4) > 0 {
			destinations = append(destinations, fmt.Sprintf(`"d%d":%q`, n, b.url))
		}
	}
	policies := []string{"roundRobin", "leastRequest", "powerOfTwo", "latency", "hash", "random"}
	return fmt.Sprintf(`{"destinations":{%s},"loadBalancing":%q,"slowStart":"%dms","resilience":{"circuitBreaker":{"breakDuration":"%dms"}},
		"health":{"active":{"path":"/alive","interval":"200ms"},"passive":{"ejectFor":"%dms"}}}`, strings.Join(destinations, ","),
		policies[c.chance.IntN(len(policies))], c.chance.IntN(2)*500, 100+c.chance.IntN(400), 100+c.chance.IntN(400))
}

// inject gives a backend a fault, or takes it from it.
func (c *chaos) inject() {
	i := chaosWell + c.chance.IntN(chaosClusters-chaosWell)
	fault := wildFaults[c.chance.IntN(len(wildFaults))]
	if c.chance.IntN(4) == 0 {
		fault = ""
	}
	c.backends[i][c.chance.IntN(chaosBackends)].fault.Store(fault)
	c.done["fault "+fmt.Sprintf("%q", fault)]++
}

// change does one of the things that an operator does, by the API, and now and then by a command.
func (c *chaos) change() {
	bad := chaosWell + c.chance.IntN(chaosClusters-chaosWell)
	name := fmt.Sprintf("c%d", bad)
	what := []string{"cluster", "cluster", "cluster", "route", "route gone", "maintenance", "maintenance over", "by command"}[c.chance.IntN(8)]
	switch what {
	case "cluster":
		i := c.chance.IntN(chaosClusters)
		c.put(clusterID(i), c.cluster(i))
	case "route":
		c.put("routes/other", fmt.Sprintf(`{"path":"/other","cluster":%q}`, name))
	case "route gone":
		_, _, _ = c.api("DELETE", "/v1/kv/gateway/routes/other?wait=local", "") // it may not be there
	case "maintenance":
		c.put("maintenance/"+name, `{"enabled":true,"grace":"0s"}`)
	case "maintenance over":
		c.put("maintenance/"+name, `{"enabled":false}`)
	case "by command":
		what = c.command(name)
	}
	c.done[what]++
}

func (c *chaos) command(cluster string) string {
	args := [][]string{
		{"clusters", "reset-breaker", cluster},
		{"clusters", "list"},
		{"config", "set", "gateway/routes/other", "path=/other,cluster=" + cluster},
		{"maintenance", "on", cluster, "--for", "1s", "--grace", "0s"},
	}[c.chance.IntN(4)]
	if code, stdout, stderr := c.cli(args...); code != 0 {
		c.t.Errorf("agent %q: %d\n%s%s", args, code, stdout, stderr)
	}
	return "agent " + strings.Join(args[:2], " ")
}

// checkCounts wants that the gateway saw nothing go wrong where all is well: a second attempt could hide it.
func (c *chaos) checkCounts() {
	for line := range strings.Lines(c.must("GET", "/metrics", "")) {
		for _, name := range []string{
			"upstream_failures_total", "upstream_retries_total", "upstream_shed_total", "breaker_transitions_total", "breaker_rejected_total",
			"destination_ejections_total",
		} {
			for i := range chaosWell {
				if strings.HasPrefix(line, fmt.Sprintf(`grapevine_%s{cluster="c%d"`, name, i)) && !strings.HasSuffix(line, " 0\n") {
					c.t.Errorf("c%d is well, and the gateway counts: %s", i, line)
				}
			}
		}
	}
}

// steadyClient asks on a connection that it keeps while it can, and tries nothing twice.
type steadyClient struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
}

func (s *steadyClient) hangUp() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

func (s *steadyClient) ask(path string) error {
	if s.conn == nil {
		conn, err := net.DialTimeout("tcp", s.address, patience)
		if err != nil {
			return err
		}
		s.conn, s.reader = conn, bufio.NewReader(conn)
	}
	s.conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(s.conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		s.hangUp()
		return err
	}
	response, err := http.ReadResponse(s.reader, nil)
	if err != nil {
		s.hangUp()
		return err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || response.Close {
		s.hangUp()
	}
	if err == nil && (response.StatusCode != 200 || string(body) != "fine") {
		err = fmt.Errorf("%d %s", response.StatusCode, body)
	}
	return err
}
