package balance_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/balance"
)

// service is destinations that take a while, and a count of what each got.
type service struct {
	balancer *balance.Balancer
	targets  []balance.Target
	takes    []time.Duration
	got      []int
	under    sync.WaitGroup
}

func newService(weights []int, takes ...time.Duration) *service {
	targets := targetsOf(weights...)
	return &service{balancer: balance.New("latency", "", targets), targets: targets, takes: takes, got: make([]int, len(weights))}
}

// run lets requests come at a rate a second for a while, and gives the share of
// each destination. Fake time only.
func (s *service) run(rate int, long time.Duration) []float64 {
	clear(s.got)
	n := int(long.Seconds() * float64(rate))
	for range n {
		i := s.balancer.Pick(0, nil)
		s.got[i]++
		load, takes := s.targets[i].Load, s.takes[i]
		load.Begin()
		s.under.Go(func() {
			<-time.After(takes + rand.N(takes/10+1))
			load.Answered(takes)
			load.End()
		})
		<-time.After(time.Second / time.Duration(rate))
	}
	shares := make([]float64, len(s.got))
	for i, got := range s.got {
		shares[i] = float64(got) / float64(n)
	}
	return shares
}

const ms = time.Millisecond

// A destination that is ten times slower would have a quarter by turns, and gets
// next to nothing here; it is asked once in a while still, and has its share again
// soon after it is as fast as the others.
func TestLatencyShunsTheSlowUntilItIsFast(t *testing.T) {
	for _, rate := range []int{20, 100, 400} { // requests a second: 0.2 to 4 under way
		synctest.Test(t, func(t *testing.T) {
			s := newService([]int{1, 1, 1, 1}, 10*ms, 10*ms, 10*ms, 100*ms)
			s.run(rate, 5*time.Second)
			shares := s.run(rate, time.Minute)
			if slow := shares[3]; slow == 0 || slow > 0.03 {
				t.Errorf("%d/s: the slow one got %.4f of the requests, want some and at most 0.03", rate, slow)
			}
			for i, share := range shares[:3] {
				if share < 0.25 || share > 0.42 {
					t.Errorf("%d/s: fast one %d got %.2f, want about a third", rate, i, share)
				}
			}
			s.takes[3] = 10 * ms
			s.run(rate, 30*time.Second)
			if share := s.run(rate, 30*time.Second)[3]; share < 0.15 {
				t.Errorf("%d/s: half a minute after it became fast it has %.2f, want about a quarter", rate, share)
			}
			s.under.Wait()
		})
	}
}

// Destinations that are alike get requests by their weights, at rest and when busy.
func TestLatencySharesByWeight(t *testing.T) {
	for _, rate := range []int{10, 800} {
		synctest.Test(t, func(t *testing.T) {
			s := newService([]int{300, 100, 0, 100}, 10*ms, 10*ms, ms, 10*ms)
			for i, share := range s.run(rate, 30*time.Second) {
				if want := []float64{0.6, 0.2, 0, 0.2}[i]; share < want-0.1 || share > want+0.1 {
					t.Errorf("%d/s: destination %d got %.2f, want about %.1f", rate, i, share, want)
				}
			}
			s.under.Wait()
		})
	}
}

// shareOf is the part of 1,000 picks that go to the last target.
func shareOf(b *balance.Balancer, at int) float64 {
	n := 0
	for range 1000 {
		if b.Pick(0, nil) == at {
			n++
		}
	}
	return float64(n) / 1000
}

// What fails at once must not look fast, and is forgiven.
func TestLatencyOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		targets := targetsOf(1, 1)
		b := balance.New("latency", "", targets)
		targets[0].Load.Answered(5 * ms)
		targets[1].Load.Failed(0)
		if share := shareOf(b, 1); share > 0 {
			t.Errorf("failed in no time: %.2f of the requests", share)
		}
		for range 100 {
			targets[1].Load.Failed(0)
		}
		<-time.After(time.Minute)
		targets[0].Load.Answered(5 * ms)
		if share := shareOf(b, 1); share < 0.4 {
			t.Errorf("a minute after a hundred failures: %.2f of the requests", share)
		}
	})
}

// One that hangs shows before it has answered, and one that was given up shows
// what it took until then, but is not better for it.
func TestLatencyOfWhatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		targets := targetsOf(1, 1)
		b := balance.New("latency", "", targets)
		for _, target := range targets {
			target.Load.Answered(10 * ms)
		}
		targets[1].Load.Begin()
		if share := shareOf(b, 1); share > 0 {
			t.Errorf("one that is busy as long as the other is idle: %.2f", share)
		}
		targets[1].Load.End()
		targets[1].Load.Waited(time.Second)
		if share := shareOf(b, 1); share > 0 {
			t.Errorf("given up after a second: %.2f", share)
		}
		<-time.After(10 * time.Second) // 1 s has become 368 ms
		targets[0].Load.Answered(200 * ms)
		targets[1].Load.Waited(ms)
		if share := shareOf(b, 1); share > 0 {
			t.Errorf("given up after 1 ms: as good as if it had answered then: %.2f", share)
		}
	})
}

// One of which nothing is known gets one request, and the others when it is
// answered.
func TestLatencyTriesTheUnknownOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		targets := targetsOf(1, 1)
		b := balance.New("latency", "", targets)
		targets[0].Load.Answered(ms)
		if share := shareOf(b, 1); share < 1 {
			t.Errorf("unknown and idle: %.2f", share)
		}
		targets[1].Load.Begin()
		if share := shareOf(b, 1); share > 0 {
			t.Errorf("unknown and busy: %.2f", share)
		}
		targets[0] = balance.Target{Address: "http://a", Weight: 1, Load: new(balance.Load)}
		targets[0].Load.Begin()
		targets[0].Load.Begin()
		if share := shareOf(balance.New("latency", "", targets), 1); share < 1 {
			t.Errorf("both unknown, the other busier: %.2f", share)
		}
	})
}

// Answers come from many goroutines.
func TestLatencyIsShared(t *testing.T) {
	targets := targetsOf(1, 1, 1)
	b := balance.New("latency", "", targets)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range 2000 {
				load := targets[b.Pick(0, nil)].Load
				load.Begin()
				switch n % 10 {
				case 0:
					load.Failed(ms)
				case 1:
					load.Waited(ms)
				default:
					load.Answered(ms)
				}
				load.End()
			}
		})
	}
	all.Wait()
}

func TestLatencyAllocatesNothing(t *testing.T) {
	var load balance.Load
	if n := testing.AllocsPerRun(1000, func() { load.Answered(ms); load.Waited(ms); load.Failed(ms) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// What a request pays for its time being noted, alone and beside others at the
// same destination.
func BenchmarkAnswered(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		var load balance.Load
		for took := time.Millisecond; b.Loop(); took ^= 1024 {
			load.Answered(took)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		var load balance.Load
		b.RunParallel(func(pb *testing.PB) {
			for took := time.Millisecond; pb.Next(); took ^= 1024 {
				load.Answered(took)
			}
		})
	})
}
