package agent

import (
	"net"
	"net/http"
	"slices"
	"time"
)

const (
	// sendTimeout cuts a client that takes longer for a piece of an answer, which is about 1 KB a second.
	sendTimeout = time.Minute
	sendPiece   = 64 << 10
	// lingerTimeout cuts a client that goes on sending a body after the answer is there. Until then it is the handler
	// that bounds its pauses.
	lingerTimeout = 5 * time.Second
)

// patientListener bounds each write to a client.
type patientListener struct{ net.Listener }

// Accept returns the next connection.
func (l patientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &patientConn{conn}, nil
}

// patientConn is a connection that waits for its peer, but not for ever. net/http has a bound for an answer as a whole
// only, and an answer may take as long as it likes while it moves.
type patientConn struct{ net.Conn }

// Write sends p piece by piece, or fails when the peer takes too long for one.
func (c *patientConn) Write(p []byte) (sent int, err error) {
	for piece := range slices.Chunk(p, sendPiece) {
		if err := c.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
			return sent, err
		}
		n, err := c.Conn.Write(piece)
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// CloseWrite lets net/http tell the peer that nothing more comes, before it closes.
func (c *patientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// NetConn is the connection below, as for a tls.Conn.
func (c *patientConn) NetConn() net.Conn { return c.Conn }

// dismiss serves with next, and then gives the client little time for the rest of its body: net/http reads that, to
// keep the connection, and waits for it without a bound.
func dismiss(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		// The read deadline is set anew for the next request.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTimeout))
	})
}
