package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// trafficEvery is the pause between two requests to one node.
const trafficEvery = 100 * time.Millisecond

// traffic sends requests to all nodes and counts what comes of them.
type traffic struct {
	senders []*sender
	cancel  context.CancelFunc // nil before begin
	running sync.WaitGroup
}

// sender sends to one node.
type sender struct {
	name, url      string
	answered, lost atomic.Int64
}

func newTraffic(nodes []*node) *traffic {
	t := &traffic{}
	for _, n := range nodes {
		t.senders = append(t.senders, &sender{name: n.name, url: "http://" + n.proxy + "/hello/traffic"})
	}
	return t
}

func (t *traffic) began() bool { return t.cancel != nil }

func (t *traffic) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	for _, s := range t.senders {
		t.running.Go(func() { s.run(ctx) })
	}
}

// end waits for the requests under way.
func (t *traffic) end() {
	if t.began() {
		t.cancel()
		t.running.Wait()
	}
}

func (s *sender) run(ctx context.Context) {
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(trafficEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.count(client)
		case <-ctx.Done():
			return
		}
	}
}

func (s *sender) count(client *http.Client) {
	response, err := client.Get(s.url)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	if err != nil || response.StatusCode != http.StatusOK {
		s.lost.Add(1)
		return
	}
	s.answered.Add(1)
}

// String is a line for each node.
func (t *traffic) String() string {
	var b strings.Builder
	for _, s := range t.senders {
		fmt.Fprintf(&b, "%s: %d requests answered, %d not\n", s.name, s.answered.Load(), s.lost.Load())
	}
	return b.String()
}
