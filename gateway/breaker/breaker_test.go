package breaker_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/breaker"
	"grapevine/gateway/spec"
)

// told collects changes.
type told struct {
	mu   sync.Mutex
	list []string
}

func (l *told) tell(c breaker.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf("%s to %s", c.From, c.To))
}

func (l *told) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

func (l *told) want(t *testing.T, changes ...string) {
	t.Helper()
	if got := l.take(); !slices.Equal(got, changes) {
		t.Errorf("changes are %q; want %q", got, changes)
	}
}

// call sends n calls that end so, and tells how many passed.
func call(b *breaker.Breaker, n int, end breaker.Outcome) (passed int) {
	for range n {
		if b.Do(breaker.NewCall(func() breaker.Outcome { return end })) {
			passed++
		}
	}
	return passed
}

var sample = breaker.Policy{Threshold: 10, Minimum: 20, Window: 10 * time.Second, Break: 30 * time.Second, Probes: 1}

func TestDefaults(t *testing.T) {
	if got := breaker.NewPolicy(&spec.CircuitBreaker{}); got != sample {
		t.Errorf("got %+v; want %+v", got, sample)
	}
	all := spec.CircuitBreaker{FailureThreshold: 0.5, MinimumThroughput: 3, Sampling: spec.Duration(time.Minute), BreakDuration: spec.Duration(time.Second), HalfOpenRequests: 7}
	if got, want := breaker.NewPolicy(&all), (breaker.Policy{0.5, 3, time.Minute, time.Second, 7}); got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
}

// What opens a breaker, beside the fewest calls that do: one less of them leaves it
// closed.
func TestThreshold(t *testing.T) {
	for _, tt := range []struct {
		name       string
		policy     breaker.Policy
		good, void int
		failures   int // that open it, the last one
	}{
		{"a count", breaker.Policy{Threshold: 10, Minimum: 1}, 1000, 0, 10},
		{"a count, too few calls", breaker.Policy{Threshold: 10, Minimum: 20}, 5, 0, 15},
		{"calls that say nothing don't count", breaker.Policy{Threshold: 10, Minimum: 20}, 5, 100, 15},
		{"a share", breaker.Policy{Threshold: 0.5, Minimum: 1}, 30, 0, 30},
		{"a share, too few calls", breaker.Policy{Threshold: 0.1, Minimum: 20}, 0, 0, 20},
		{"the first failure", breaker.Policy{Threshold: 1, Minimum: 1}, 0, 0, 1},
		{"the first failure after what went well", breaker.Policy{Threshold: 1, Minimum: 1}, 100, 0, 1},
		{"a tiny share", breaker.Policy{Threshold: 0.001, Minimum: 20}, 19, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.policy.Window, tt.policy.Break, tt.policy.Probes = time.Second, time.Second, 1
				var told told
				b := breaker.New(tt.policy, told.tell)
				call(b, tt.good, breaker.Success)
				call(b, tt.void, breaker.Void)
				call(b, tt.failures-1, breaker.Failure)
				if b.State() != breaker.Closed {
					t.Fatalf("it is %s after one failure less", b.State())
				}
				call(b, 1, breaker.Failure)
				if b.State() != breaker.Open {
					t.Fatalf("it is %s", b.State())
				}
				told.want(t, "closed to open")
			})
		})
	}
}

// Calls that are under way say nothing: with a hundred of them, and few that
// ended, there is no throughput.
func TestCallsUnderWayDoNotCount(t *testing.T) {
	b := breaker.New(breaker.Policy{Threshold: 1, Minimum: 20, Window: time.Minute, Break: time.Minute, Probes: 1}, func(breaker.Change) {})
	release := make(chan struct{})
	var began, ended sync.WaitGroup
	for range 100 {
		began.Add(1)
		ended.Go(func() {
			b.Do(breaker.NewCall(func() breaker.Outcome {
				began.Done()
				<-release
				return breaker.Success
			}))
		})
	}
	began.Wait()
	call(b, 19, breaker.Failure)
	if b.State() != breaker.Closed {
		t.Errorf("it is %s with 19 calls that ended", b.State())
	}
	close(release)
	ended.Wait()
}

// Failures that are older than the window are forgotten, a tenth of it at a time.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(sample, func(breaker.Change) {})
		for range 100 { // nine in each window of 10 s
			call(b, 9, breaker.Failure)
			call(b, 20, breaker.Success)
			<-time.After(10 * time.Second)
		}
		if b.State() != breaker.Closed {
			t.Fatalf("it is %s, though no window had ten failures", b.State())
		}
		call(b, 5, breaker.Failure)
		call(b, 10, breaker.Success)
		<-time.After(5 * time.Second)
		if good, bad := b.Counts(); good != 10 || bad != 5 {
			t.Errorf("counts are %d and %d", good, bad)
		}
		call(b, 5, breaker.Failure) // across the border of two fixed windows
		if b.State() != breaker.Open {
			t.Errorf("it is %s, though ten failures came within 5 s", b.State())
		}
	})
}

// Open for the break, then the probes; the wait tells how long it is still.
func TestBreakAndProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told told
		b := breaker.New(sample, told.tell)
		if wait := b.Wait(); wait != 0 {
			t.Errorf("a closed one waits for %s", wait)
		}
		call(b, 20, breaker.Failure)
		for _, rest := range []time.Duration{30 * time.Second, 10 * time.Second, time.Nanosecond} {
			<-time.After(b.Wait() - rest)
			if n := call(b, 5, breaker.Success); n != 0 || b.Wait() != rest {
				t.Errorf("%d passed with %s left, and it says %s", n, rest, b.Wait())
			}
		}
		<-time.After(2 * time.Nanosecond)
		call(b, 1, breaker.Failure)
		told.want(t, "closed to open", "open to half-open", "half-open to open")
		<-time.After(30*time.Second + 1)
		if b.State() != breaker.HalfOpen {
			t.Errorf("it is %s when the break is over", b.State())
		}
		call(b, 3, breaker.Void) // a probe whose client left is none
		call(b, 1, breaker.Success)
		told.want(t, "open to half-open", "half-open to closed")
		if good, bad := b.Counts(); good+bad != 0 {
			t.Errorf("it remembers %d and %d", good, bad)
		}
	})
}

// At the moment it is half-open a hundred come at once, and what they ask is slow:
// as many as may pass, and no others, also when some of those gave up (O15).
func TestProbesAreCapped(t *testing.T) {
	for _, probes := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			policy := sample
			policy.Probes = probes
			b := breaker.New(policy, func(breaker.Change) {})
			call(b, 20, breaker.Failure)
			<-time.After(policy.Break + 1)
			var now, most, passed, refused atomic.Int64
			ask := func(end breaker.Outcome) {
				took := time.Now()
				ok := b.Do(breaker.NewCall(func() breaker.Outcome {
					if n := now.Add(1); n > most.Load() {
						most.Store(n)
					}
					<-time.After(2 * time.Second)
					now.Add(-1)
					return end
				}))
				if ok {
					passed.Add(1)
				} else if refused.Add(1); time.Since(took) > 0 {
					t.Error("a refused one had to wait")
				}
			}
			var calls sync.WaitGroup
			for range 100 {
				calls.Go(func() { ask(breaker.Void) })
			}
			calls.Wait()
			for range 100 {
				calls.Go(func() { ask(breaker.Success) })
			}
			calls.Wait()
			if most.Load() != int64(probes) || passed.Load() != int64(2*probes) || refused.Load() != int64(200-2*probes) {
				t.Errorf("at most %d at once, %d passed, %d refused; want %d at once", most.Load(), passed.Load(), refused.Load(), probes)
			}
			if b.State() != breaker.Closed {
				t.Errorf("it is %s after its probes went well", b.State())
			}
		})
	}
}

// Whatever calls do, there never are more probes than may be, and one that fails
// opens it again.
func TestLateEndsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(sample, func(breaker.Change) {})
		release := make(chan breaker.Outcome)
		late := func() { b.Do(breaker.NewCall(func() breaker.Outcome { return <-release })) }
		go late()
		go late()
		synctest.Wait()
		call(b, 20, breaker.Failure)
		<-time.After(sample.Break + 1)
		if b.State() != breaker.HalfOpen {
			t.Fatalf("it is %s", b.State())
		}
		release <- breaker.Failure // of a call from before the break
		release <- breaker.Success
		b.Fail()
		synctest.Wait()
		if b.State() != breaker.HalfOpen {
			t.Errorf("it is %s: what began before the break has decided", b.State())
		}
	})
}

func TestFail(t *testing.T) {
	b := breaker.New(breaker.Policy{Threshold: 2, Minimum: 2, Window: time.Minute, Break: time.Minute, Probes: 1}, func(breaker.Change) {})
	b.Fail()
	if b.Fail(); b.State() != breaker.Open {
		t.Errorf("it is %s", b.State())
	}
}

func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told told
		b := breaker.New(sample, told.tell)
		release := make(chan struct{})
		go b.Do(breaker.NewCall(func() breaker.Outcome {
			<-release
			return breaker.Failure
		}))
		synctest.Wait()
		call(b, 20, breaker.Failure)
		if before := b.Reset(); before != breaker.Open || b.State() != breaker.Closed || b.Wait() != 0 {
			t.Errorf("it was %s, is %s, and waits for %s", before, b.State(), b.Wait())
		}
		close(release)
		synctest.Wait()
		if good, bad := b.Counts(); good+bad != 0 {
			t.Errorf("it remembers %d and %d", good, bad)
		}
		told.want(t, "closed to open", "open to closed")
		if call(b, 19, breaker.Failure) != 19 || b.State() != breaker.Closed {
			t.Errorf("it is %s", b.State())
		}
	})
}

// What began before a reset says nothing after it, and changes nothing.
func TestResetWhileCallsAreUnderWay(t *testing.T) {
	var told told
	b := breaker.New(breaker.Policy{Threshold: 1, Minimum: 1, Window: time.Minute, Break: time.Minute, Probes: 1}, told.tell)
	if !b.Do(breaker.NewCall(func() breaker.Outcome {
		b.Reset()
		return breaker.Failure
	})) {
		t.Error("it does not pass")
	}
	if told.want(t, "closed to closed"); b.State() != breaker.Closed || b.Wait() != 0 {
		t.Errorf("it is %s, and waits for %s", b.State(), b.Wait())
	}
}

// A panic is a failure, and goes on.
func TestPanic(t *testing.T) {
	b := breaker.New(breaker.Policy{Threshold: 1, Minimum: 1, Window: time.Minute, Break: time.Minute, Probes: 1}, func(breaker.Change) {})
	func() {
		defer func() {
			if cause := recover(); cause != "boom" {
				t.Errorf("got %v", cause)
			}
		}()
		b.Do(breaker.NewCall(func() breaker.Outcome { panic("boom") }))
	}()
	if b.State() != breaker.Open {
		t.Errorf("it is %s", b.State())
	}
}

func TestCallAllocatesNothing(t *testing.T) {
	b := breaker.New(sample, func(breaker.Change) {})
	c := breaker.NewCall(func() breaker.Outcome { return breaker.Success })
	if n := testing.AllocsPerRun(100, func() { b.Do(c) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDo(b *testing.B) {
	br := breaker.New(sample, func(breaker.Change) {})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c := breaker.NewCall(func() breaker.Outcome { return breaker.Success })
		for pb.Next() {
			br.Do(c)
		}
	})
}
