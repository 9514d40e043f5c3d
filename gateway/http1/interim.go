package http1

import (
	"net/http"

	"grapevine/gateway/exchange"
)

// interim relays an informational response. 100 is passed on only to a client
// that waits for it and was not told by us; 101 is the tunnel's.
func (t *turn) interim(status int, fields exchange.Fields) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wanted := status != http.StatusContinue || t.expects
	if t.begun || !wanted || status < 100 || status == http.StatusSwitchingProtocols || status >= 200 {
		return
	}
	if status == http.StatusContinue {
		t.expects = false
	}
	out := pages.Get().(*page)
	defer out.release()
	head, err := AppendResponseHead(out.b[:0], &exchange.Response{Status: status, Fields: fields}, NoBody, -1, "")
	if err == nil {
		_ = t.c.write(head, t.c.s.writeTimeout()) // the final head will fail too
	}
}

// invite tells a client that waits for it to send its body, unless it has begun
// to, or has its answer (RFC 9110 §10.1.1).
func (t *turn) invite() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expects && !t.begun && t.ahead() == 0 {
		_ = t.c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n"), t.c.s.writeTimeout()) // the body will fail too
	}
	t.expects = t.expects && t.begun
}

// waitsForContinue tells whether the client may never send the body.
func (t *turn) waitsForContinue() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expects && t.ahead() == 0
}

// send writes a part of the final response. The first one ends the interim ones.
func (t *turn) send(p []byte) error {
	if !t.begun {
		t.mu.Lock()
		t.begun = true
		t.mu.Unlock()
	}
	return t.c.write(p, t.c.s.writeTimeout())
}
