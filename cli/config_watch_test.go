package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// watching is a watch that runs beside the test.
type watching struct {
	t              *testing.T
	stdout, stderr *bufio.Reader
	interrupt      func()
	ended          chan int
}

func startWatch(t *testing.T, address, line string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	stdout, out := io.Pipe()
	stderr, errs := io.Pipe()
	w := &watching{
		t: t, stdout: bufio.NewReader(stdout), stderr: bufio.NewReader(stderr),
		interrupt: func() { cancel(interrupted{syscall.SIGINT}) }, ended: make(chan int, 1),
	}
	p := &program{stdin: strings.NewReader(""), stdout: out, stderr: errs}
	go func() {
		exit := p.main(ctx, append(words(line), "--addr", address))
		out.Close()
		errs.Close()
		w.ended <- exit
	}()
	t.Cleanup(func() {
		w.interrupt()
		go io.Copy(io.Discard, stdout)
		go io.Copy(io.Discard, stderr)
	})
	return w
}

func (w *watching) said(r *bufio.Reader, want string) {
	w.t.Helper()
	line, err := r.ReadString('\n')
	if got := steady(strings.TrimSuffix(line, "\n")); err != nil || got != want {
		w.t.Fatalf("got %q (%v), want %q", got, err, want)
	}
}

func (w *watching) ends(exit int) {
	w.t.Helper()
	go io.Copy(io.Discard, w.stderr)
	if got := <-w.ended; got != exit {
		w.t.Errorf("exit %d, want %d", got, exit)
	}
}

func TestWatchTellsChanges(t *testing.T) {
	n := startNode(t)
	w := startWatch(t, n.address, "config watch app")
	w.said(w.stderr, "watching app from revision 0")
	n.must("config set app/x '{\"a\": 1}'")
	w.said(w.stdout, `put     app/x  rev 1  by USER  {"a":1}`)
	n.must("config set other 1")
	n.must("config delete app/x")
	w.said(w.stdout, "delete  app/x  rev 3  by USER")
	w.interrupt()
	w.ends(130)
}

func TestWatchResumesFromARevision(t *testing.T) {
	n := startNode(t)
	for _, key := range []string{"app/a", "app/b", "app/c"} {
		n.must("config set " + key + " 1")
	}
	w := startWatch(t, n.address, "config watch app --since 1 -o json")
	w.said(w.stdout, `{"type":"put","key":"app/b","value":1,"modRev":"1.2","by":"USER","at":"TIME"}`)
	w.said(w.stdout, `{"type":"put","key":"app/c","value":1,"modRev":"1.3","by":"USER","at":"TIME"}`)
	w.interrupt()
	w.ends(130)
}

func TestWatchOnceEndsAfterOneChange(t *testing.T) {
	n := startNode(t)
	n.must("config set app/a 1")
	n.must("config set app/b 1")
	line := "config watch app --since 0 --once -o name -q"
	if r := n.call(line); r.exit != 0 || r.stdout != "app/a\n" {
		t.Errorf("%s: %+v", line, r)
	}
	line = "config watch app --since 0 --once -o yaml -q"
	n.call(line).check(t, line, 0, "---\ntype: put\nkey: app/a\nvalue: 1\nmodRev: \"1.1\"\nby: USER\nat: \"TIME\"\n", "")
}

func TestWatchRunsACommand(t *testing.T) {
	t.Chdir(t.TempDir())
	n := startNode(t)
	n.must("config set app/a hello")
	n.must("config delete app/a")
	line := `config watch app --since 0 --once --exec 'echo "$GRAPEVINE_EVENT $GRAPEVINE_KEY $GRAPEVINE_REV"; cat'`
	n.call(line).check(t, line, 0, "put app/a 1.1\nhello", "")
	line = "config watch app --since 0 --once --exec 'exit 4'"
	n.call(line).check(t, line, exitFailure, "", "error: app/a: --exec \"exit 4\": exit status 4\n")

	w := startWatch(t, n.address, "config watch app --since 0 --exec 'echo $GRAPEVINE_EVENT; exit 4'")
	w.said(w.stdout, "put")
	w.said(w.stderr, `error: app/a: --exec "echo $GRAPEVINE_EVENT; exit 4": exit status 4`)
	w.said(w.stdout, "delete")
	w.interrupt()
	w.ends(130)
}

// scripted is an agent whose watches follow a script, one entry for each connection; the last stays open.
func scripted(t *testing.T, streams ...string) (address string, asked chan string) {
	t.Helper()
	asked = make(chan string, len(streams)) // more connections than streams would be a fault
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("since")
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, streams[next])
		w.(http.Flusher).Flush()
		next++
		if next == len(streams) {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func wantAsked(t *testing.T, asked chan string, want string) {
	t.Helper()
	if got := <-asked; got != want {
		t.Errorf("connection asked for changes since %q, want %q", got, want)
	}
}

func TestWatchGoesOnWhereItStopped(t *testing.T) {
	address, asked := scripted(t,
		"event: sync\nid: 1.3\ndata: {\"rev\":\"1.3\"}\n\n"+
			"event: put\nid: 1.4\ndata: {\"key\":\"a\",\"value\":1,\"modRev\":\"1.4\"}\n\n"+
			"event: put\ndata: {\"key\":\"b\",\"value\":1,\"modRev\":\"1.5\"}\n\n", // half of revision 1.5
		"event: put\ndata: {\"key\":\"b\",\"value\":1,\"modRev\":\"1.5\"}\n\n"+
			"event: put\nid: 1.5\ndata: {\"key\":\"c\",\"value\":1,\"modRev\":\"1.5\"}\n\n",
		": alive\n\n",
	)
	w := startWatch(t, address, "config watch app -o name")
	w.said(w.stderr, "watching app from revision 3")
	w.said(w.stdout, "a")
	w.said(w.stdout, "b")
	w.said(w.stderr, "the agent ended the stream; connecting again")
	w.said(w.stdout, "b")
	w.said(w.stdout, "c")
	w.said(w.stderr, "the agent ended the stream; connecting again")
	wantAsked(t, asked, "")
	wantAsked(t, asked, "1.4")
	wantAsked(t, asked, "1.5")
	w.interrupt()
	w.ends(130)
}

func TestWatchOutlivesARestartOfTheAgent(t *testing.T) {
	dir, err := os.MkdirTemp("", "gv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "agent.sock")
	serve := func(key string) *httptest.Server {
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "event: put\ndata: {\"key\":%q,\"value\":1,\"modRev\":\"1.1\"}\n\n", key)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		server.Listener.Close()
		server.Listener = listener
		server.Start()
		return server
	}
	first := serve("before")
	w := startWatch(t, "unix://"+socket, "config watch app -o name -q")
	w.said(w.stdout, "before")
	first.CloseClientConnections()
	first.Close()
	second := serve("after")
	t.Cleanup(second.Close)
	w.said(w.stdout, "after")
	w.interrupt()
	w.ends(130)
}

// A reset is told when the new stream has begun: who then reads the prefix misses nothing.
func TestWatchTellsAReset(t *testing.T) {
	address, asked := scripted(t,
		"event: reset\ndata: {\"oldest\":\"1.90\"}\n\n",
		"event: sync\nid: 1.99\ndata: {\"rev\":\"1.99\"}\n\n",
	)
	w := startWatch(t, address, "config watch app --since 1.2 -o json -q")
	w.said(w.stdout, `{"type":"reset","modRev":"1.99"}`)
	wantAsked(t, asked, "1.2")
	wantAsked(t, asked, "")
	w.interrupt()
	w.ends(130)
}

func TestWatchThatIsRefused(t *testing.T) {
	n := startNode(t)
	for _, test := range []struct {
		line string
		exit int
		want string
	}{
		{"config watch a//b", exitInvalid, "empty segment"},
		{"config watch app --since x", exitUsage, `--since: revision "x"`},
	} {
		if r := n.call(test.line); r.exit != test.exit || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%s: %+v", test.line, r)
		}
	}
	address := answering(t, 200, "text/event-stream", "event: put\ndata: {\n\n")
	if r := call("", "config", "watch", "app", "--addr", address); r.exit != exitFailure || !strings.Contains(r.stderr, "event put: ") {
		t.Errorf("an event that is no JSON: %+v", r)
	}
}

// A closed pipe must end the watch, not start it over.
func TestWatchEndsWithItsReader(t *testing.T) {
	n := startNode(t)
	n.must("config set app/a 1")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	p := &program{stdin: strings.NewReader(""), stdout: w, stderr: io.Discard}
	if exit := p.main(t.Context(), []string{"config", "watch", "app", "--since", "0", "--addr", n.address}); exit != exitFailure {
		t.Errorf("exit %d", exit)
	}
}
