package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
)

// An agent that is told to stop lets WebSockets live until it has drained, or is told a second time. Then it tells them
// that it goes away, and ends well.
func TestWebSocketsOfAnAgentThatStops(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(backend.Close)
	p := startAgent(t, t.TempDir())
	p.must("PUT", "/v1/kv/gateway/routes/ws?wait=local", fmt.Sprintf(`{"path":"/ws","backends":[%q]}`, backend.URL))
	c, _, err := websocket.Dial(t.Context(), "ws://"+p.proxy+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	echo := func(when string) {
		t.Helper()
		if err := c.Write(t.Context(), websocket.MessageText, []byte(when)); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if _, message, err := c.Read(t.Context()); err != nil || string(message) != when {
			t.Fatalf("%s: %q, %v", when, message, err)
		}
	}
	echo("before")
	p.cmd.Process.Signal(syscall.SIGTERM)
	eventually(t, "the agent says that it stops", func() bool { return strings.Contains(p.output.String(), "agent is stopping") })
	echo("while it drains")
	p.cmd.Process.Signal(syscall.SIGTERM)
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the client sees %v", err)
	}
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the agent ended with %d:\n%s", code, p.output)
	}
}
