package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	// descriptorLimit is what the agent may have open, and crowd how many connections come.
	descriptorLimit = 256
	crowd           = 1000
)

// When more connections come than there are descriptors, accepting waits and does not spin, what is open is served, and
// when they leave all is as before.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel() // it waits
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") }))
	t.Cleanup(backend.Close)
	dir := t.TempDir()
	run := fmt.Sprintf("ulimit -n %d && exec %q run --data-dir %q --http 127.0.0.1:0 --admin 127.0.0.1:0", descriptorLimit, agentBinary(t), dir)
	p := startCommand(t, dir, exec.Command("sh", "-c", run))
	p.must("PUT", "/v1/kv/gateway/routes/all?wait=local", fmt.Sprintf(`{"path":"/{**rest}","backends":[%q]}`, backend.URL))
	p.must("PUT", "/v1/kv/gateway/config/logging?wait=local", `{"level":"warn"}`)
	early, err := net.Dial("tcp", p.proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	wantFine := func(when string) {
		t.Helper()
		if body, err := askOn(early, "/"); err != nil || body != "fine" {
			t.Fatalf("%s: %q, %v", when, body, err)
		}
	}
	wantFine("before")
	open := descriptors(t, p)

	conns := make([]net.Conn, crowd)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", p.proxy); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conns[i].Close()
	}
	eventually(t, "the descriptors run out", func() bool {
		return descriptors(t, p) >= descriptorLimit-1 && strings.Contains(p.output.String(), "accepting fails")
	})
	const watched = 3 * time.Second
	before := cpuTime(t, p)
	<-time.After(watched)
	spent := cpuTime(t, p) - before
	t.Logf("%v of CPU in %v, with %d descriptors open", spent, watched, descriptors(t, p))
	if spent > watched/3 {
		t.Errorf("the agent spends %v of CPU in %v on waiting", spent, watched)
	}
	wantFine("meanwhile") // by the connection to the backend that is there already
	if code, _, err := p.api("GET", "/v1/status", ""); err != nil || code != 200 {
		t.Errorf("the API, on a connection that is there already: %d, %v", code, err)
	}

	for _, conn := range conns {
		conn.Close()
	}
	eventually(t, "the descriptors are free again", func() bool { return descriptors(t, p) <= open+5 })
	if body, err := askOnce(p.proxy, "/"); err != nil || body != "fine" {
		t.Errorf("a new client, afterwards: %q, %v", body, err)
	}
	p.client.CloseIdleConnections()
	p.awaitStatus()
	if n := strings.Count(p.output.String(), "accepting fails"); n > 20 {
		t.Errorf("the log says %d times that accepting fails", n)
	}
	p.stop()
}

// eventually waits for something to be so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.After(patience); !is(); {
		select {
		case <-deadline:
			t.Fatalf("it never happens that %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// descriptors is how many the agent has open.
func descriptors(t *testing.T, p *process) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// cpuTime is what the agent has used of the processors (proc_pid_stat(5), fields 14 and 15, of a hundredth of a second).
func cpuTime(t *testing.T, p *process) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, behind, _ := strings.Cut(string(stat), ") ") // the name of the program may have spaces
	fields := strings.Fields(behind)
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
