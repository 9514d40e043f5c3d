package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Acknowledged writes survive kill -9 at random moments; what was under way
// may have come or not, and nothing else has changed.
func TestAcknowledgedWritesSurviveKill(t *testing.T) {
	t.Parallel() // it waits for starts
	kills := 10  // in the middle of writes
	if long {
		kills = 50
	}
	dir := t.TempDir()
	const writers = 4
	var written, acknowledged [writers]int // the last value of each writer's key
	total := 0
	for round := range kills {
		p := startAgent(t, dir)
		for w := range writers {
			acknowledged[w] = checkSurvived(t, p, round, w, acknowledged[w], written[w])
			written[w] = acknowledged[w]
		}
		before := sum(acknowledged[:])
		replies := make(chan struct{}, 1024)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { write(p, w, &written[w], &acknowledged[w], replies) })
		}
		awaitReplies(t, p, replies, 10+rand.IntN(20))
		<-time.After(time.Duration(rand.IntN(int(2 * time.Millisecond)))) // somewhere between two replies
		p.kill()
		wg.Wait()
		total += sum(acknowledged[:]) - before
	}
	if total < 10*kills {
		t.Errorf("only %d writes were acknowledged in %d rounds: the test shows nothing", total, kills)
	}
	t.Logf("%d acknowledged writes over %d kills", total, kills)
}

// awaitReplies waits for some replies, so that a busy machine shows as much as an
// idle one.
func awaitReplies(t *testing.T, p *process, replies <-chan struct{}, n int) {
	t.Helper()
	deadline := time.After(patience)
	for range n {
		select {
		case <-replies:
		case <-p.exited:
			t.Fatal("the agent ended by itself")
		case <-deadline:
			t.Fatal("no reply")
		}
	}
}

// write puts one number after the other until the agent is gone.
func write(p *process, writer int, written, acknowledged *int, replies chan<- struct{}) {
	for {
		*written++
		code, _, err := p.api("PUT", fmt.Sprintf("/v1/kv/app/w%d?wait=none", writer), strconv.Itoa(*written))
		if err != nil || code != 200 {
			return
		}
		*acknowledged = *written
		select {
		case replies <- struct{}{}:
		default: // enough for this round
		}
	}
}

// checkSurvived gives the value that a writer's key has after a restart.
func checkSurvived(t *testing.T, p *process, round, writer, acknowledged, written int) int {
	t.Helper()
	code, body, err := p.api("GET", fmt.Sprintf("/v1/kv/app/w%d", writer), "")
	if err != nil {
		t.Fatal(err)
	}
	if code == 404 && acknowledged == 0 {
		return 0
	}
	got, err := strconv.Atoi(body)
	if code != 200 || err != nil || got < acknowledged || got > written {
		t.Fatalf("round %d: writer %d has %d %q; %d was acknowledged, %d sent", round, writer, code, body, acknowledged, written)
	}
	return got
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}
