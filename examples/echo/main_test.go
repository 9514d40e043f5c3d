package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// start runs a backend with n addresses and returns where it really listens. It is stopped, and must end without an
// error, when the test ends.
func start(t *testing.T, n int, delay time.Duration) []string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, slices.Repeat([]string{"127.0.0.1:0"}, n), delay, w) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run ended with %v", err)
		}
	})
	lines := bufio.NewScanner(r)
	var addresses []string
	for range n {
		lines.Scan()
		addresses = append(addresses, strings.TrimPrefix(lines.Text(), "echo listens on "))
	}
	return addresses
}

func TestAnswerSaysWhatWasReceived(t *testing.T) {
	address := start(t, 2, 0)[1]
	request, err := http.NewRequest("PUT", "http://"+address+"/a%2Fb/../c?x=1;y&z", strings.NewReader("12345"))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "example.test"
	request.Header.Add("X-Two", "a")
	request.Header.Add("X-Two", "b")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got received
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Address != address || got.Method != "PUT" || got.Target != "/a%2Fb/../c?x=1;y&z" ||
		got.Host != "example.test" || got.BodyLength != 5 || strings.Join(got.Headers["X-Two"], ",") != "a,b" {
		t.Errorf("answer: %+v", got)
	}
}

func TestAddressInUseIsNamed(t *testing.T) {
	taken := start(t, 1, 0)[0]
	err := run(t.Context(), []string{"127.0.0.1:0", taken}, 0, io.Discard)
	if err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("run with a taken address: %v, want an error that names %s", err, taken)
	}
}

func TestRequestInHandSurvivesTheStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"127.0.0.1:0"}, time.Millisecond, w) }()
	lines := bufio.NewScanner(r)
	lines.Scan()
	conn, err := net.Dial("tcp", strings.TrimPrefix(lines.Text(), "echo listens on "))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); !strings.Contains(line, "100") {
		t.Fatalf("first answer %q, %v; want 100 Continue, which says that the handler reads", line, err)
	}
	answers.ReadString('\n')

	stop()
	io.WriteString(conn, "ok")
	response, err := http.ReadResponse(answers, nil)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("request in hand when it was told to stop: %v, %v", response, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("run ended with %v", err)
	}
}
