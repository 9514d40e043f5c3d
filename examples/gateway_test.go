package examples

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A gateway of one's own serves what an operator sets and what services announce, goes on when the agent is killed, also
// over a restart of its own, and follows again when the agent is back.
func TestGateway(t *testing.T) {
	dir, port, mine := t.TempDir(), freePort(t), freePort(t)
	agent := startAgent(t, dir, port)
	socket := filepath.Join(dir, "grapevine-data", "agent.sock")
	env := "AGENT_ADDR=unix://" + socket
	embed := func() *process {
		p := run(t, exec.Command(build(t, "./gateway"), "-listen", "127.0.0.1:"+mine, "-data", filepath.Join(dir, "mine.db")), env)
		awaitReady(t, p, mine)
		return p
	}
	gateway := embed()

	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "backend "+r.URL.Path) }))
	defer backend.Close()
	set := func(id string) {
		t.Helper()
		cmd := exec.Command(agent.Path, "config", "set", "gateway/routes/"+id, "path=/"+id+"/{**rest},backends="+backend.URL)
		cmd.Env = append(cmd.Environ(), env)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	set("one")
	served(t, mine, "/one/x", "backend /one/x", 2*time.Second)
	address := freePort(t)
	service := run(t, all[0].command(t, address), env)
	awaitServing(t, socket, "http://127.0.0.1:"+address)
	served(t, mine, "/warehouse/x", "hello from go: /x\n", 2*time.Second)

	agent.end(t, syscall.SIGKILL)
	for range 20 {
		served(t, mine, "/one/x", "backend /one/x", 0)
		served(t, mine, "/warehouse/x", "hello from go: /x\n", 0)
	}
	if err := gateway.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("the gateway ended with %v\n%s", err, gateway.output)
	}
	gateway = embed()
	served(t, mine, "/one/x", "backend /one/x", 0)
	served(t, mine, "/warehouse/x", "hello from go: /x\n", 0)

	agent = runAgent(t, dir, port)
	set("two")
	const longestPause = 3 * time.Second // between two attempts to reach the agent
	served(t, mine, "/two/x", "backend /two/x", longestPause+2*time.Second)
	served(t, mine, "/warehouse/x", "hello from go: /x\n", 0)

	awaitServing(t, socket, "http://127.0.0.1:"+address)
	if err := service.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("the service ended with %v\n%s", err, service.output)
	}
	served(t, mine, "/warehouse/x", "", 2*time.Second)
	if err := gateway.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("the gateway ended with %v\n%s", err, gateway.output)
	}
}

// served waits until a gateway answers as wanted, with an answer that it has marked; within 0 it has to at once. Of
// what is not served the body does not matter.
func served(t *testing.T, port, path, want string, within time.Duration) {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for begin := time.Now(); ; {
		response, err := client.Get("http://127.0.0.1:" + port + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if response.Header.Get("X-Served-By") != "my-gateway" {
			t.Errorf("%s is answered without the mark: %v", path, response.Header)
		}
		if response.StatusCode == http.StatusOK && string(body) == want || want == "" && response.StatusCode != http.StatusOK {
			if within > 0 {
				t.Logf("%s: as wanted after %v", path, time.Since(begin).Round(time.Millisecond))
			}
			return
		}
		if time.Since(begin) >= within {
			t.Fatalf("%s: %d %q after %v, want %q", path, response.StatusCode, body, within, want)
		}
		<-time.After(10 * time.Millisecond)
	}
}
