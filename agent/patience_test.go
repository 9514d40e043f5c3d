package agent

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections in memory, whose time can be faked.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.closed)
	return nil
}

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial serves with handler and returns a client's end of a connection.
func dial(t *testing.T, handler http.HandlerFunc) net.Conn {
	listener := pipes{make(chan net.Conn), make(chan struct{})}
	server := newServer("http", handler, slog.New(slog.DiscardHandler))
	go server.Serve(patientListener{listener})
	here, there := net.Pipe()
	t.Cleanup(func() {
		here.Close()
		server.Close()
		time.Sleep(time.Second) // in fake time: after an error net/http lingers a moment
	})
	listener.conns <- there
	return here
}

// cutAfter fails the test unless the connection ends after d.
func cutAfter(t *testing.T, conn net.Conn, d time.Duration) {
	t.Helper()
	began := time.Now()
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection ended with %v", err)
	}
	// net/http waits a moment after an error, so that its answer is read before the connection is reset.
	if took := time.Since(began); took < d || took > d+time.Second {
		t.Errorf("cut after %s, want %s", took, d)
	}
}

func TestSlowHeadIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, nil)
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nX: ")
		cutAfter(t, conn, headTimeout)
	})
}

func TestTrickledHeadIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, nil)
		go func() {
			for _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n"); err == nil; {
				time.Sleep(time.Second) // in fake time
				_, err = io.WriteString(conn, "X: y\r\n")
			}
		}()
		cutAfter(t, conn, headTimeout)
	})
}

func TestSilentConnectionIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { cutAfter(t, dial(t, nil), headTimeout) })
}

func TestIdleConnectionIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, func(http.ResponseWriter, *http.Request) {})
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		cutAfter(t, conn, idleTimeout)
	})
}

func TestClientThatDoesNotReadIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error)
		conn := dial(t, func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 1<<20))
			failed <- err
		})
		began := time.Now()
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if err := <-failed; err == nil {
			t.Error("the handler wrote all of it")
		}
		if took := time.Since(began); took != sendTimeout {
			t.Errorf("cut after %s, want %s", took, sendTimeout)
		}
	})
}

// A client that reads slowly and steadily gets all of it.
func TestClientThatReadsSlowlyIsServed(t *testing.T) {
	const size = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)) })
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for buffer := make([]byte, 4<<10); err == nil; {
			var n int
			n, err = response.Body.Read(buffer)
			got += n
			time.Sleep(sendTimeout / 100) // in fake time
		}
		if got != size || err != io.EOF {
			t.Errorf("read %d bytes and %v", got, err)
		}
	})
}

// A handler that does not want the body must not leave its connection to a client that goes on sending it for ever.
func TestSlowBodyAfterTheAnswerIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n1")
		cutAfter(t, conn, lingerTimeout)
	})
}

// A body that takes its time while the handler reads it is the handler's to bound.
func TestSlowBodyThatIsReadIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1")
		time.Sleep(time.Hour) // in fake time
		io.WriteString(conn, "2")
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); string(body) != "12" || err != nil {
			t.Errorf("got %q and %v", body, err)
		}
	})
}

func TestLargeHeadIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, nil)
		go io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 2*maxHead)+"\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d", response.StatusCode)
		}
	})
}
