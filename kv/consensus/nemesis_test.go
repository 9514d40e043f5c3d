package consensus_test

import (
	"context"
	"math/rand/v2"
	"time"
)

// disturb kills leaders and cuts the network, one fault after the other.
func (r *trialRun) disturb(random *rand.Rand, done <-chan struct{}) {
	pause := func(least, most time.Duration) bool {
		select {
		case <-time.After(least + time.Duration(random.Int64N(int64(most-least)))):
			return true
		case <-done:
			return false
		}
	}
	for n := 0; pause(500*time.Millisecond, 2*time.Second); n++ {
		switch {
		case n%2 == 0:
			r.killLeader(pause)
		case random.IntN(2) == 0:
			r.cut(random, pause)
		default:
			r.blockOneWay(random, pause)
		}
	}
	r.net.Heal()
}

func (r *trialRun) killLeader(pause func(least, most time.Duration) bool) {
	for _, n := range r.nodes {
		if _, here, _ := n.raft.Leader(); !here {
			continue
		}
		up := n.raft
		r.mu.Lock()
		r.kills++
		n.raft = nil
		r.mu.Unlock()
		n.host.Crash()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		up.Shutdown(ended)
		n.calls.Close()
		n.client.Close()
		pause(100*time.Millisecond, 3*time.Second)
		r.restart(n)
		return
	}
}

// restart starts a killed node while clients look for one that is up.
func (r *trialRun) restart(n *node) {
	started := *n
	started.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	*n = started
}

func (r *trialRun) cut(random *rand.Rand, pause func(least, most time.Duration) bool) {
	all := append([]*node(nil), r.nodes...)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	minority := 1 + random.IntN(len(all)/2)
	r.net.Partition(ips(all[:minority]...), ips(all[minority:]...))
	pause(500*time.Millisecond, 6*time.Second)
	r.net.Heal()
}

func (r *trialRun) blockOneWay(random *rand.Rand, pause func(least, most time.Duration) bool) {
	from, to := r.nodes[random.IntN(len(r.nodes))], r.nodes[random.IntN(len(r.nodes))]
	r.net.Block(from.ip, to.ip)
	pause(500*time.Millisecond, 6*time.Second)
	r.net.Heal()
}
