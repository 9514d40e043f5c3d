package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// The access log goes to the standard output once it is asked for, line by line, and a reader that ends takes
// nothing with it.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cmd := exec.Command(agentBinary(t), "run", "--data-dir", dir, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	p := startWithOutput(t, dir, cmd, writer)
	writer.Close()
	p.must("PUT", "/v1/kv/gateway/config/logging?wait=local", `{"access":{"fields":["path","status","reason"]}}`)

	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	ask := func(path string) {
		t.Helper()
		response, err := client.Get("http://" + p.proxy + path)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	ask("/none?token=secret")
	reader.SetReadDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(line), &doc); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	delete(doc, "time")
	want := map[string]any{"level": "INFO", "msg": "request", "path": "/none", "status": 404.0, "reason": "no_route"}
	for name, value := range want {
		if doc[name] != value || len(doc) != len(want) {
			t.Errorf("%s; want %v", line, want)
		}
	}

	reader.Close()
	for dropped := false; !dropped; {
		ask("/none")
		_, metrics, err := p.api("GET", "/metrics", "")
		if err != nil {
			t.Fatal(err)
		}
		dropped = droppedLines.MatchString(metrics)
	}
}

var droppedLines = regexp.MustCompile(`(?m)^grapevine_access_log_dropped_total [1-9]`)
