package names_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/names"
)

// watched is a name in fake time whose upstream has connections to ends: nothing
// is dialled, since the fake ends refuse.
type watched struct {
	*names.Name
	zone *zone

	// mu guards what follows.
	mu   sync.Mutex
	ends []string
	log  strings.Builder
}

func (w *watched) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

func (w *watched) said(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), what)
}

func (w *watched) connect(ends ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = ends
}

func (w *watched) connected() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.ends, " ")
}

func watch(t *testing.T) *watched {
	w := &watched{zone: &zone{}, ends: []string{"10.0.0.1:80"}}
	w.Name = names.New(names.Options{
		Host: "svc.example", Port: "80", Resolver: w.zone,
		Logger: slog.New(slog.NewTextHandler(w, nil)), Drain: w.drain,
	})
	t.Cleanup(w.Close)
	return w
}

func (w *watched) drain(keep func(net.Addr) bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = slices.DeleteFunc(w.ends, func(end string) bool {
		return !keep(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(end)))
	})
	return len(w.ends)
}

// ask has the name looked up if it has to be: the dial itself has no time.
func (w *watched) ask() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = w.Dial(ctx)
	synctest.Wait()
}

// wait lets time pass, and what is due happen.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// The TTL counts, between 5 s and 30 s.
func TestTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]int{
		0: 4, time.Second: 24, 5 * time.Second: 24, 12 * time.Second: 10, time.Hour: 4,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := watch(t)
			w.zone.set(ttl, nil, "10.0.0.1")
			w.ask()
			wait(2*time.Minute - time.Second)
			if got := w.zone.lookups(); got != want {
				t.Errorf("TTL %v: %d lookups in two minutes, want %d", ttl, got, want)
			}
		})
	}
}

// Connections to what the name does not mean any more are drained, and others
// stay.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.connect("10.0.0.1:80", "10.0.0.2:80", "[::ffff:10.0.0.2]:80")
		w.zone.set(0, nil, "10.0.0.1", "10.0.0.2")
		w.ask()
		w.zone.set(0, nil, "10.0.0.3", "10.0.0.2")
		wait(31 * time.Second)
		if got := w.connected(); got != "10.0.0.2:80 [::ffff:10.0.0.2]:80" {
			t.Errorf("connections to %s", got)
		}
		w.zone.set(0, nil, "10.0.0.2", "10.0.0.3") // another order is no change
		wait(31 * time.Second)
		if n := w.said("other addresses"); n != 1 {
			t.Errorf("said %d times that there are others", n)
		}
	})
}

// A lookup that fails changes nothing, is said once, and made again soon.
func TestLastGoodAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.zone.set(0, nil, "10.0.0.1")
		w.ask()
		w.zone.set(0, errors.New("no server answers"))
		wait(time.Minute + time.Second)
		if n := w.zone.lookups(); n != 8 { // one each 5 s after the first 30
			t.Errorf("%d lookups", n)
		}
		if w.connected() == "" {
			t.Error("the connection was drained")
		}
		if n := w.said("can't be looked up"); n != 1 {
			t.Errorf("said %d times that it can't be looked up", n)
		}
		w.zone.set(0, nil, "10.0.0.1")
		wait(10 * time.Second)
		if n := w.said("can be looked up again"); n != 1 {
			t.Errorf("said %d times that it can be looked up again", n)
		}
	})
}

// Without connections nobody asks, and the next dial does.
func TestNobodyNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.zone.set(0, nil, "10.0.0.1")
		w.ask()
		w.connect()
		wait(time.Hour)
		if n := w.zone.lookups(); n != 1 {
			t.Errorf("%d lookups in an hour without connections", n)
		}
		w.ask()
		if n := w.zone.lookups(); n != 2 {
			t.Errorf("%d lookups after another dial", n)
		}
	})
}
