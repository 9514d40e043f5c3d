package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slowClients is how many connections of slow clients there are.
const slowClients = 100

// Slow clients, by the tool that is made for them, are all cut within the bounds, and a client beside them does not
// notice.
func TestSlowClients(t *testing.T) {
	t.Parallel() // it waits for clients that are slow
	tool, err := exec.LookPath("slowhttptest")
	if err != nil {
		t.Skip("slowhttptest is not installed (Debian: apt-get install slowhttptest): slow clients are not tested with it")
	}
	large := bytes.Repeat([]byte("x"), 32<<20)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/large" {
			w.Header().Set("Content-Length", strconv.Itoa(len(large)))
			w.Write(large)
			return
		}
		fmt.Fprint(w, "fine")
	}))
	t.Cleanup(backend.Close)
	p := startAgent(t, t.TempDir())
	p.must("PUT", "/v1/kv/gateway/routes/all?wait=local", fmt.Sprintf(`{"path":"/{**rest}","backends":[%q]}`, backend.URL))
	p.must("PUT", "/v1/kv/gateway/config/timeouts?wait=local", `{"idleTimeout":"2s"}`)
	for _, tt := range []struct {
		name, path string
		flags      string
		bound      time.Duration // of the configuration, or of the server
		long       bool
	}{
		{"heads", "/", "-H -i 1", 10 * time.Second, false},
		{"bodies", "/", "-B -i 5 -s 8192 -x 10", 2 * time.Second, false},
		// A quarter of a kilobyte each second, from a window of as little.
		{"readers", "/large", "-X -n 1 -w 512 -y 1024 -z 256", time.Minute, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.long && !long {
				t.Skip("it takes a minute, and is one of the long tests")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*tt.bound+patience)
			defer cancel()
			duration := int((2*tt.bound + patience).Seconds())
			flags := fmt.Sprintf("%s -c %d -r %d -l %d -p 3 -u http://%s%s", tt.flags, slowClients, slowClients, duration, p.proxy, tt.path)
			ended := make(chan string, 1)
			go func() {
				out, _ := exec.CommandContext(ctx, tool, strings.Fields(flags)...).CombinedOutput() // its exit code tells nothing
				ended <- colours.ReplaceAllString(string(out), "")
			}()
			served := 0
			for out := ""; out == ""; {
				select {
				case out = <-ended:
					checkSlow(t, out, tt.bound)
				case <-time.After(20 * time.Millisecond):
					if body, err := askOnce(p.proxy, "/"); err != nil || body != "fine" {
						t.Fatalf("a client beside them got %q, %v", body, err)
					}
					served++
				}
			}
			t.Logf("%d requests were served beside them", served)
		})
	}
}

var (
	colours   = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")
	endedOn   = regexp.MustCompile(`Test ended on (\d+)\w* second`)
	connected = regexp.MustCompile(`connected: +(\d+)`)
)

// checkSlow wants that the tool could connect and that the server ended all its connections.
func checkSlow(t *testing.T, out string, bound time.Duration) {
	t.Helper()
	found := endedOn.FindStringSubmatch(out)
	if found == nil || !strings.Contains(out, "No open connections left") || strings.Contains(out, "service available:   NO") {
		t.Fatalf("slowhttptest says:\n%s", out)
	}
	most := 0
	for _, status := range connected.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(status[1])
		most = max(most, n)
	}
	t.Logf("ended in second %s, at most %d connected", found[1], most)
	// The tool finds an end when it next writes, or has read what is before it.
	const slack = 15 * time.Second
	if seconds, _ := strconv.Atoi(found[1]); time.Duration(seconds)*time.Second > bound+slack {
		t.Errorf("ended in second %d; the bound is %v", seconds, bound)
	}
}
