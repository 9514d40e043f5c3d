package follow_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/follow"
)

// dialled runs a source in a bubble, whose connections answer takes.
func dialled(t *testing.T, answer func(net.Conn) error) *source {
	t.Helper()
	s, err := follow.New(follow.Options{Agent: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	s.Dial(func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		if err := answer(theirs); err != nil {
			ours.Close()
			return nil, err
		}
		return ours, nil
	})
	return runIt(t, s)
}

// say answers a request with a stream that stays open, and says more every so often.
func say(conn net.Conn, text, more string, every time.Duration) {
	go func() {
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n%s", text)
		for {
			<-time.After(every)
			if _, err := fmt.Fprint(conn, more); err != nil {
				return
			}
		}
	}()
}

// An agent that can't be reached is tried at growing, random pauses: soon at first, and never often.
func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		s := dialled(t, func(net.Conn) error {
			tries = append(tries, time.Now())
			return errors.New("nobody listens")
		})
		<-time.After(time.Minute)
		s.stop()
		if n := len(tries); n < 20 || n > 50 {
			t.Errorf("%d attempts in a minute", n)
		}
		if first := tries[1].Sub(tries[0]); first > 100*time.Millisecond {
			t.Errorf("the second attempt came after %v", first)
		}
		for i := range tries[6:] {
			if pause := tries[i+6].Sub(tries[i+5]); pause < 1500*time.Millisecond || pause > 3*time.Second {
				t.Errorf("pause %d was %v", i+6, pause)
			}
		}
		if err := s.Status().Err; err == nil || !strings.Contains(err.Error(), "nobody listens") || s.Status().Following {
			t.Errorf("status %+v", s.Status())
		}
	})
}

// An agent that says nothing is dead after three of its comments; one that does nothing else than those is not.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var connections atomic.Int32
		s := dialled(t, func(conn net.Conn) error {
			every := time.Hour
			if connections.Add(1) > 1 {
				every = 15 * time.Second
			}
			say(conn, state("1.4", here, put("gateway/routes/a", "1.4", "1")), ": alive\n\n", every)
			return nil
		})
		<-time.After(follow.Silence - time.Second)
		if status := s.Status(); !status.Following || connections.Load() != 1 {
			t.Errorf("before: %d connections, %+v", connections.Load(), status)
		}
		<-time.After(1100 * time.Millisecond)
		if connections.Load() != 2 || !s.Status().Following {
			t.Errorf("after: %d connections, %+v", connections.Load(), s.Status())
		}
		<-time.After(10 * time.Minute)
		if connections.Load() != 2 || !s.Status().Following || time.Since(s.Status().Heard) > 15*time.Second {
			t.Errorf("later: %d connections, %+v", connections.Load(), s.Status())
		}
		s.stop()
		<-time.After(time.Hour) // the ends of the pipes notice
	})
}

// An agent that takes a connection and does not answer is given up.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dialled(t, func(conn net.Conn) error {
			go func() {
				defer conn.Close()
				for b := make([]byte, 1<<10); ; {
					if _, err := conn.Read(b); err != nil {
						return
					}
				}
			}()
			return nil
		})
		<-time.After(5100 * time.Millisecond)
		if err := s.Status().Err; err == nil || !strings.Contains(err.Error(), "no answer within 5s") {
			t.Errorf("status %+v", s.Status())
		}
		s.stop()
	})
}
