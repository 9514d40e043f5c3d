package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// halfOpen bounds how long an instance stays whose connection is dead and was never closed: what the docs say, and a second
// for a busy machine.
const halfOpen = 13 * time.Second

// A client that is gone without a word loses its lease in the documented time, also while the agent has something to say
// to it.
func TestLeaseOfAClientThatIsGone(t *testing.T) {
	if !long {
		t.Skip("takes half a minute; runs with GRAPEVINE_LONG")
	}
	p := startAgent(t, t.TempDir())
	for name, silence := range map[string]time.Duration{"at once": 0, "before the agent says that it is alive": 9 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := fmt.Sprint("at-", int(silence.Seconds()))
			conn := p.announceByTCP(t, id)
			<-time.After(silence)
			cutOff(t, conn)
			began := time.Now()
			for p.holds(id) {
				if time.Since(began) > halfOpen {
					t.Fatalf("the instance is there %s after its client was gone", time.Since(began))
				}
				<-time.After(20 * time.Millisecond)
			}
			t.Logf("gone after %s", time.Since(began).Round(time.Millisecond))
		})
	}
}

// announceByTCP announces an instance over TCP, by a client whose kernel never asks whether the agent is there, and
// returns when the agent has it and has told so.
func (p *process) announceByTCP(t *testing.T, id string) *net.TCPConn {
	t.Helper()
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: false}, KeepAlive: -1}
	address := strings.TrimPrefix(p.awaitStatus().Listeners.Admin, "http://")
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	body := fmt.Sprintf(`{"routeId":"r-%s","instanceId":%q,"path":"/%s","address":"http://%s.test:1"}`, id, id, id, id)
	if _, err := fmt.Fprintf(conn, "POST /v1/announce HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("announced: %+v, %v", response, err)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"event":"applied","nodes":1`) {
			return conn.(*net.TCPConn)
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
	return nil
}

// cutOff has the kernel throw away all that comes for a connection: as after a power cut, the other end gets no answer and
// no goodbye. The filter is one instruction of BPF: keep nothing (socket(7), SO_ATTACH_FILTER).
func cutOff(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	controlErr := raw.Control(func(fd uintptr) {
		//lint:ignore SA1019 it sets one option of a socket; what is to replace it is a module for packets
		err = syscall.AttachLsf(int(fd), []syscall.SockFilter{{Code: syscall.BPF_RET | syscall.BPF_K}})
	})
	if err != nil || controlErr != nil {
		t.Fatal(err, controlErr)
	}
}

// holds tells whether the agent lists an instance.
func (p *process) holds(id string) bool {
	return strings.Contains(p.must("GET", "/v1/instances", ""), `"`+id+`"`)
}
