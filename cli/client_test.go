package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"grapevine/announce/reach"
)

func TestProblemsBecomeExitCodes(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
		exit   int
	}{
		{400, "bad_key", exitInvalid},
		{401, "unauthorized", exitDenied},
		{403, "forbidden_host", exitDenied},
		{404, "not_found", exitNotFound},
		{405, "method_not_allowed", exitFailure},
		{410, "compacted", exitNotFound},
		{412, "conflict", exitConflict},
		{413, "too_large", exitInvalid},
		{415, "unsupported_content_type", exitFailure},
		{422, "invalid", exitInvalid},
		{500, "internal", exitFailure},
		{503, "no_quorum", exitNoQuorum},
		{503, "no_leader", exitNoQuorum},
		{503, "read_only", exitFailure},
		{507, "disk_full", exitFailure},
		{409, "refused", exitFailure},
		{504, "timeout", exitFailure},
		{508, "loop_detected", exitFailure},
	} {
		body := `{"code":"` + test.code + `","detail":"it is so","key":"app/x","nothingWritten":true}`
		address := answering(t, test.status, "application/problem+json", body)
		r := call("", "config", "set", "app/x", "1", "--addr", address)
		want := "error: app/x: it is so. Nothing was written.\ntry: agent config get app/x --detail\n"
		if test.exit == exitNoQuorum {
			want = "error: app/x: it is so. Nothing was written.\ntry: agent members\n"
		}
		if r.exit != test.exit || r.stderr != want {
			t.Errorf("%d %s: exit %d, want %d\n%s", test.status, test.code, r.exit, test.exit, r.stderr)
		}
	}
}

func TestWhatIsNoAgentIsTold(t *testing.T) {
	for _, test := range []struct {
		status           int
		mime, body, want string
	}{
		{404, "text/html", "<h1>", "GET /v1/status: not the answer of an agent: 404 Not Found"},
		{302, "text/plain", "", "GET /v1/status: not the answer of an agent: 302 Found"},
		{500, "application/problem+json", "{", "GET /v1/status: not the answer of an agent: 500 Internal Server Error"},
		{200, "text/html", "<h1>", "GET /v1/status: not the answer of an agent: invalid character '<'"},
	} {
		r := call("", "status", "--addr", answering(t, test.status, test.mime, test.body))
		if r.exit == 0 || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%d %s: exit %d\n%s", test.status, test.body, r.exit, r.stderr)
		}
	}
}

func TestWriteThatIsNotLiveInTime(t *testing.T) {
	address := answering(t, 202, "application/json", `{"key":"app/x","rev":"1.7","value":1,"applied":{"nodes":0,"of":1}}`)
	r := call("", "config", "set", "app/x", "1", "--addr", address)
	want := "app/x = 1\nerror: revision 7: not live on this node in time. The change was written.\ntry: agent status\n"
	if r.exit != exitWait || r.stderr != want {
		t.Errorf("exit %d\n%s", r.exit, r.stderr)
	}
}

// A write whose answer is lost may have been made, and that is said.
func TestLostAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Query().Get("message") == "hang" || r.Method == http.MethodGet {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	for _, test := range []struct {
		line string
		exit int
		want string
	}{
		{"config set app/x 1", exitFailure, "the connection broke before an answer came: EOF. The change may have been written.\ntry: agent config list --long app/x\n"},
		{"config set app/x 1 --timeout 20ms --wait none -m hang", exitFailure, "no answer within 20ms. The change may have been written.\ntry: agent config list --long app/x\n"},
		{"config set app/x 1 --timeout 20ms -m hang", exitFailure, "no answer within 40ms. The change may have been written.\ntry: agent config list --long app/x\n"},
		{"config set app/x 1 --dry-run", exitUnreachable, "the connection broke before an answer came: EOF. Nothing was written.\n"},
		{"status --timeout 20ms", exitUnreachable, "no answer within 20ms\ntry: a longer --timeout\n"},
		{"config watch app --timeout 20ms", exitUnreachable, "no answer within 20ms\ntry: a longer --timeout\n"},
	} {
		r := call("", append(words(test.line), "--addr", server.URL)...)
		if r.exit != test.exit || r.stderr != "error: "+server.URL+": "+test.want {
			t.Errorf("%s: exit %d, want %d\n%swant %s", test.line, r.exit, test.exit, r.stderr, test.want)
		}
	}
}

func TestInterruptedCommands(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	for _, test := range []struct{ line, want string }{
		{"status", ""},
		{"config set app/x 1", "error: " + server.URL + ": interrupt before an answer came. The change may have been written.\ntry: agent config list --long app/x\n"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(interrupted{syscall.SIGINT})
		var stderr strings.Builder
		p := &program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &stderr}
		exit := p.main(ctx, append(words(test.line), "--addr", server.URL))
		if exit != 130 || stderr.String() != test.want {
			t.Errorf("%s: exit %d\n%q", test.line, exit, stderr.String())
		}
	}
}

func TestUnreachableAgentsSayWhatWasTried(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("AGENT_ADDR", "")
	listener, err := net.Listen("unix", "stale.sock")
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	r := call("", "config", "set", "a", "b", "--addr", "unix://stale.sock")
	want := "error: no agent answers at unix://stale.sock: connection refused. Nothing was written.\n" +
		"try: agent run, or name the agent with --addr or AGENT_ADDR\n"
	if r.exit != exitUnreachable || r.stderr != want {
		t.Errorf("exit %d\n%s", r.exit, r.stderr)
	}
	p := reach.Place{Network: "tcp", Address: "127.0.0.1:1", Base: "http://127.0.0.1:1", Missing: []string{"grapevine-data/agent.sock"}}
	_, err = newClient(p, 1e9).do(t.Context(), request{method: "GET", path: "/"})
	var b strings.Builder
	asFailure(err).tell(&b, style{}, looks)
	want = "error: no agent answers at http://127.0.0.1:1: connection refused\n  there is no socket at grapevine-data/agent.sock\n" +
		"try: agent run, or name the agent with --addr or AGENT_ADDR\n"
	if b.String() != want {
		t.Errorf("got %s", b.String())
	}
}

func TestVerboseTellsTheRequests(t *testing.T) {
	n := startNode(t)
	r := n.must("config list app -v")
	if !strings.Contains(r.stderr, "GET http://agent/v1/kv?prefix=app: 200 OK in ") {
		t.Errorf("-v says %q", r.stderr)
	}
}
