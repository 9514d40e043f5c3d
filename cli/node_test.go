package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"grapevine/agent"
)

// node is a real agent in memory.
type node struct {
	t       *testing.T
	address string
}

func startNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "gv") // a socket's path has little room
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "agent.sock")
	a := agent.New(agent.Config{
		Dev: true, Node: "test", HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0", Socket: socket, Version: "0.0.1",
	}, io.Discard)
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
	return &node{t, "unix://" + socket}
}

// result is what a command did.
type result struct {
	exit           int
	stdout, stderr string
}

// call runs a command line; a word with spaces stands in single quotes.
func (n *node) call(line string) result {
	n.t.Helper()
	return n.callWith("", line)
}

func (n *node) callWith(stdin, line string) result {
	n.t.Helper()
	return call(stdin, append(words(line), "--addr", n.address)...)
}

func call(stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	exit := Main(args, strings.NewReader(stdin), &stdout, &stderr)
	return result{exit, stdout.String(), stderr.String()}
}

func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

// must runs a command that has to succeed.
func (n *node) must(line string) result {
	n.t.Helper()
	r := n.call(line)
	if r.exit != 0 {
		n.t.Fatalf("%s: exit %d\n%s%s", line, r.exit, r.stdout, r.stderr)
	}
	return r
}

// steady replaces what differs from run to run: times, ages, users, places.
func steady(text string) string {
	for _, r := range []struct{ pattern, name string }{
		{`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`, "TIME"},
		{`\b\d+ ms\b`, "N ms"},
		{`\b\ds\b`, "0s"}, // an age on a busy host
		{`"ms": ?\d+`, `"ms": N`},
		{`unix:///\S+/agent\.sock`, "SOCKET"},
		{`/\S+/agent\.sock`, "SOCKET"},
		{`127\.0\.0\.1:\d+`, "ADDRESS"},
		{`\b(root|uid:\d+)\b`, "USER"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.name)
	}
	return text
}

func (r result) check(t *testing.T, line string, exit int, stdout, stderr string) {
	t.Helper()
	if r.exit != exit || steady(r.stdout) != stdout || steady(r.stderr) != stderr {
		t.Errorf("%s\nexit %d, want %d\nstdout:\n%swant:\n%s\nstderr:\n%swant:\n%s",
			line, r.exit, exit, steady(r.stdout), stdout, steady(r.stderr), stderr)
	}
}

// answering is the address of a server that gives every request the same answer.
func answering(t *testing.T, status int, contentType, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
