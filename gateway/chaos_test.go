package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// faults are what a backend of the chaos does instead of answering well.
var faults = []string{"hang", "reset", "500s", "503s", "slow", "half body", "garbage", "deaf"}

// wild is a backend whose fault is set while it serves.
type wild struct {
	url   string
	fault atomic.Pointer[string] // nil: none
}

func newWild(t *testing.T) *wild {
	w := &wild{}
	ctx, cancel := context.WithCancel(context.Background())
	var open sync.WaitGroup
	t.Cleanup(func() { // after no connection is accepted any more
		cancel()
		open.Wait()
	})
	w.url = accept(t, func(conn net.Conn) { open.Go(func() { w.serve(ctx, conn) }) })
	return w
}

func (w *wild) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	for reader := bufio.NewReader(conn); ; {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		io.Copy(io.Discard, request.Body)
		if !w.answer(ctx, conn) {
			return
		}
	}
}

// answer is false when the connection is to end.
func (w *wild) answer(ctx context.Context, conn net.Conn) bool {
	fault := w.fault.Load()
	if fault == nil {
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return err == nil
	}
	switch *fault {
	case "hang":
		<-ctx.Done()
	case "reset":
		conn.(*net.TCPConn).SetLinger(0)
	case "500s", "503s":
		_, err := fmt.Fprintf(conn, "HTTP/1.1 %s Broken\r\nContent-Length: 0\r\n\r\n", (*fault)[:3])
		return err == nil
	case "slow":
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return err == nil
	case "half body":
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
	case "garbage":
		io.WriteString(conn, "no http at all\r\n\r\n")
	}
	return false
}

// Five clusters: two are well, and the backends of the three others have random
// faults, while the configuration changes. The ones that are well never fail a
// request.
func TestChaosStaysWhereItIs(t *testing.T) {
	duration := 2 * time.Second
	if os.Getenv("GRAPEVINE_LONG") != "" {
		duration = 45 * time.Second
	}
	seed := uint64(time.Now().UnixNano())
	chance := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	f := start(t, "")
	backends := map[int][]*wild{}
	for c := range 5 {
		for range 3 {
			backends[c] = append(backends[c], newWild(t))
		}
		f.put(fmt.Sprintf("gateway/clusters/c%d", c), chaosCluster(backends[c], 0))
		timeout := "10s" // for a busy host to have no say
		if c >= 2 {
			timeout = "300ms"
		}
		f.put(fmt.Sprintf("gateway/routes/r%d", c), fmt.Sprintf(`{"path":"/c%d/{**rest}","cluster":"c%d","timeout":"%s"}`, c, c, timeout))
	}

	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	client := &http.Transport{MaxIdleConnsPerHost: 20}
	defer client.CloseIdleConnections()
	var clients sync.WaitGroup
	var sent, failed, troubled, slowest atomic.Int64
	for c := range 5 {
		for range 4 {
			clients.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					start := time.Now()
					err := f.patientGet(client, fmt.Sprintf("/c%d/%d", c, n))
					if c >= 2 {
						if err != nil {
							troubled.Add(1)
						}
						continue
					}
					if took := int64(time.Since(start)); took > slowest.Load() {
						slowest.Store(took) // of two at once one may be lost: it is for people
					}
					if sent.Add(1); err != nil && ctx.Err() == nil {
						failed.Add(1)
						t.Errorf("cluster c%d is well, and: %v", c, err)
					}
				}
			})
		}
	}

	injected, changes := map[string]int{}, 0
	for ticker := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; changes++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ticker.Stop()
			continue
		}
		c := 2 + chance.IntN(3)
		fault := faults[chance.IntN(len(faults))]
		victim := backends[c][chance.IntN(3)]
		if victim.fault.Swap(&fault); chance.IntN(3) == 0 {
			victim.fault.Store(nil)
			fault = "none"
		}
		injected[fault]++
		f.chaosChange(chance, backends, changes)
	}
	clients.Wait()
	var list []string
	for fault, n := range injected {
		list = append(list, fmt.Sprintf("%d × %s", n, fault))
	}
	slices.Sort(list)
	t.Logf("faults: %s; %d changes", strings.Join(list, ", "), changes)
	t.Logf("%d requests to the clusters that are well, %d failed, the slowest took %v; %d failed in the others",
		sent.Load(), failed.Load(), time.Duration(slowest.Load()), troubled.Load())
	if sent.Load() < 10 || troubled.Load() == 0 {
		t.Error("that was no chaos")
	}
}

// chaosChange changes something: a bad cluster's policy, a well one's, a route
// beside them.
func (f *fixture) chaosChange(chance *rand.Rand, backends map[int][]*wild, n int) {
	switch chance.IntN(3) {
	case 0:
		c := chance.IntN(5)
		f.put(fmt.Sprintf("gateway/clusters/c%d", c), chaosCluster(backends[c], n))
	case 1:
		f.put("gateway/routes/other", route("/other", backends[chance.IntN(5)][0].url))
	default:
		f.put(fmt.Sprintf("gateway/clusters/extra%d", n%3), chaosCluster(backends[chance.IntN(5)], n))
	}
}

// chaosCluster is one of various policies.
func chaosCluster(backends []*wild, n int) string {
	destinations := ""
	for i, b := range backends {
		destinations += fmt.Sprintf(`,"d%d":"%s"`, i, b.url)
	}
	return fmt.Sprintf(`{"destinations":{%s},"loadBalancing":"%s","slowStart":"%dms","resilience":{"circuitBreaker":{}},
		"health":{"active":{"path":"/alive","interval":"%dms","timeout":"100ms"},"passive":{"ejectFor":"200ms"}}}`, destinations[1:],
		[]string{"roundRobin", "leastRequest", "powerOfTwo", "latency", "hash"}[n%5], n%2*500, 200+n%3*100)
}

// patientGet asks once, on a connection that is kept, and reads to the end.
func (f *fixture) patientGet(client *http.Transport, target string) error {
	request, err := http.NewRequest("GET", "http://"+f.address+target, nil)
	if err != nil {
		return err
	}
	response, err := client.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != 200 || string(body) != "ok":
		return fmt.Errorf("%d %s", response.StatusCode, body)
	}
	return nil
}
