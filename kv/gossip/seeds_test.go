package gossip

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv"
	"grapevine/kv/memnet"
)

// equalWithin is how soon after the last fault all nodes have the same.
const equalWithin = 2 * time.Second

// TestSeeds plays a random schedule of writes, crashes, partitions and losses for each seed, on 3 to
// 25 nodes. When it is over, all nodes have the same soon, and everything that a
// leader or an owner made. GRAPEVINE_SEEDS is how many seeds, GRAPEVINE_SEED the first.
func TestSeeds(t *testing.T) {
	seeds, first := 10, 1
	switch {
	case long():
		seeds = 300
	case raceEnabled:
		seeds = 4
	}
	if n, err := strconv.Atoi(os.Getenv("GRAPEVINE_SEEDS")); err == nil {
		seeds = n
	}
	if n, err := strconv.Atoi(os.Getenv("GRAPEVINE_SEED")); err == nil {
		first = n
	}
	var took []time.Duration
	for seed := first; seed < first+seeds && !t.Failed(); seed++ {
		problem := ""
		took = append(took, playSeed(t, uint64(seed), &problem))
		if last := took[len(took)-1]; last > equalWithin/2 {
			t.Logf("seed %d took %v", seed, last)
		}
		if problem != "" {
			t.Errorf("seed %d: %s", seed, problem)
		}
		if seed%500 == 0 {
			fmt.Fprintln(os.Stderr, "seed", seed)
		}
	}
	slices.Sort(took)
	t.Logf("seeds %d to %d: equal after the last fault within p50 %v, p99 %v, max %v", first, first+len(took)-1,
		quantile(took, 0.5), quantile(took, 0.99), took[len(took)-1])
}

func playSeed(t *testing.T, seed uint64, problem *string) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 11))
		c := newCluster("one", memnet.New(seed))
		c.log, c.key = slog.New(slog.DiscardHandler), nil
		c.calm(r)
		planes := withPlanes(c)
		c.onRoster()
		defer c.close()
		defer func() {
			if failed, ok := recover().(failure); ok {
				*problem = string(failed)
			}
		}()
		rec := recorder{}
		for range 3 + min(r.IntN(23), r.IntN(23)) {
			c.add(rec)
		}
		for _, n := range c.nodes {
			n.start(rec)
		}
		for range 3 + r.IntN(10) {
			c.befall(rec, r, planes)
		}
		took = c.recover(rec, r, planes)
	})
	return took
}

// calm sets a network without faults: a LAN, or links of 30 ms.
func (c *cluster) calm(r *rand.Rand) {
	c.net.Heal()
	c.net.SetLoss(0)
	c.net.SetDuplicate(0)
	c.net.SetRetransmit(leastResend)
	if r.IntN(4) == 0 {
		c.net.SetDelay(18*time.Millisecond, 42*time.Millisecond)
	} else {
		c.net.SetDelay(300*time.Microsecond, 700*time.Microsecond)
	}
	for _, n := range c.nodes {
		c.net.Host(n.ip).SetLoss(0)
	}
}

// befall is one step of a schedule.
func (c *cluster) befall(t tb, r *rand.Rand, planes map[*node]*toyPlane) {
	n := c.nodes[r.IntN(len(c.nodes))]
	switch r.IntN(12) {
	case 0, 1, 2:
		c.write(t, r)
	case 3, 4:
		planes[n].count(1 + r.IntN(100))
	case 5:
		if n != c.leader() {
			c.net.Host(n.ip).PowerOff()
			n.stop()
		}
	case 6:
		if n != c.leader() {
			n.stop()
		}
	case 7:
		c.startAll(t)
	case 8:
		var sides [2][]string
		for _, n := range c.nodes {
			side := r.IntN(2)
			sides[side] = append(sides[side], n.ip)
		}
		c.net.Partition(sides[0], sides[1])
	case 9:
		c.net.Host(n.ip).SetLoss(r.Float64() / 2)
	case 10:
		c.net.SetLoss(r.Float64() / 3)
		c.net.SetDuplicate(r.Float64() / 3)
	case 11:
		c.calm(r)
	}
	<-time.After(time.Duration(r.IntN(3000)) * time.Millisecond)
}

// write lets the leader write a little, or more than its history remembers.
func (c *cluster) write(t tb, r *rand.Rand) {
	many := 1 + r.IntN(20)
	if r.IntN(60) == 0 {
		many = historyRevs + 10
	}
	for range many {
		c.leader().write(t, kv.Put(kv.Key(fmt.Sprintf("k%d", r.IntN(50))), fmt.Appendf(nil, "%*d", 1+r.IntN(3000), r.Uint64())))
	}
}

func (c *cluster) startAll(t tb) {
	for _, n := range c.nodes {
		if n.peer == nil {
			n.start(t)
		}
	}
}

// recover ends all faults, waits until all nodes are equal, and tells how long that took. What is written
// then is with all as soon.
func (c *cluster) recover(t tb, r *rand.Rand, planes map[*node]*toyPlane) time.Duration {
	c.calm(r)
	c.startAll(t)
	began := time.Now()
	c.wantSame(t, equalWithin)
	c.wantSamePlanes(t, planes, equalWithin-time.Since(began))
	took := time.Since(began)
	c.write(t, r)
	for _, n := range c.nodes {
		planes[n].count(1)
	}
	c.wantSame(t, equalWithin)
	c.wantSamePlanes(t, planes, equalWithin)
	for _, n := range c.nodes {
		if alarms := n.peer.Alarms(); len(alarms) > 0 {
			t.Fatalf("%s: %s from %s", n.id(), alarms[0].Kind, alarms[0].Node)
		}
	}
	return took
}
