package gateway

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/balance"
	"grapevine/gateway/exchange"
	"grapevine/gateway/health"
	"grapevine/gateway/spec"
)

// lined is a cluster of destinations in words: name, then any of region=r,
// weight=n, status=s, and bad for one that is ejected.
func lined(t *testing.T, policy spec.Cluster, destinations ...string) *cluster {
	monitor := health.NewMonitor(slog.New(slog.DiscardHandler), nil)
	t.Cleanup(monitor.Close)
	group := monitor.NewGroup("c", func() {})
	t.Cleanup(group.Close)
	c := &cluster{id: "c", planned: &plannedCluster{policy: &policy}, region: "eu", state: &clusterState{}}
	for _, text := range destinations {
		words := strings.Fields(text)
		d := &destination{address: words[0], weight: 1, load: &balance.Load{}, health: group.Member(words[0], nil)}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			switch name {
			case "region":
				d.region = value
			case "status":
				d.status = value
			case "weight":
				fmt.Sscan(value, &d.weight)
			}
		}
		c.destinations = append(c.destinations, d)
	}
	p := health.Policy{Failures: 1, EjectFor: time.Hour, MaxPercent: 100}
	group.Enter(p, c.members())
	for i, text := range destinations {
		if strings.Contains(text, " bad") {
			c.destinations[i].health.Failed()
		}
	}
	return c
}

// asked are the addresses that get requests, in the order of their first turn,
// with "/" and those that are tried when they can't be reached.
func (c *cluster) asked(l *lineup) string {
	var first, all []string
	for turn := range uint64(1000) {
		if at := l.pick(turn, &exchange.Request{}); at >= 0 && !slices.Contains(first, c.destinations[at].address) {
			first = append(first, c.destinations[at].address)
		}
	}
	slices.Sort(first)
	var tried []int
	for at := l.pick(0, &exchange.Request{}); at >= 0; at = l.after(tried, &exchange.Request{}) {
		tried, all = append(tried, at), append(all, c.destinations[at].address)
	}
	rest := slices.DeleteFunc(all, func(a string) bool { return slices.Contains(first, a) })
	return strings.Join(first, " ") + " / " + strings.Join(rest, " ")
}

func TestLineup(t *testing.T) {
	no, never, tenth := false, 0, 10
	for _, row := range []struct {
		name         string
		policy       spec.Cluster
		destinations []string
		want         string
		panics       bool
		unwell       bool
	}{
		{"all well", spec.Cluster{}, []string{"a", "b"}, "a b / ", false, false},
		{"one is bad", spec.Cluster{}, []string{"a", "b bad"}, "a / b", false, false},
		{"fewer than half are well", spec.Cluster{}, []string{"a", "b bad", "c bad"}, "a b c / ", true, false},
		{"a tenth is enough", spec.Cluster{PanicPercent: &tenth}, []string{"a", "b bad", "c bad"}, "a / b c", false, false},
		{"none is well", spec.Cluster{}, []string{"a bad", "b bad"}, "a b / ", true, false},
		{"none is well, and no panic", spec.Cluster{PanicPercent: &never}, []string{"a bad", "b bad"}, " / ", false, true},
		{"bad ones never", spec.Cluster{PanicPercent: &never}, []string{"a", "b bad", "c bad"}, "a / ", false, false},
		{"a single one", spec.Cluster{}, []string{"a bad"}, "a / ", true, false},
		{"none", spec.Cluster{}, nil, " / ", false, false},
		{"without weight", spec.Cluster{}, []string{"a", "b weight=0", "c weight=0"}, "a / ", false, false},

		{"draining", spec.Cluster{}, []string{"a", "b status=draining"}, "a / ", false, false},
		{"draining counts for nothing", spec.Cluster{}, []string{"a", "b bad", "c status=draining", "d status=draining"}, "a / b", false, false},
		{"all drain", spec.Cluster{}, []string{"a status=draining"}, " / ", false, false},
		{"a panic asks no draining one", spec.Cluster{}, []string{"a bad", "b status=draining"}, "a / ", true, false},

		{"degraded ones wait", spec.Cluster{}, []string{"a", "b status=degraded"}, "a / b", false, false},
		{"degraded before bad", spec.Cluster{}, []string{"a bad", "b status=degraded"}, "b / a", false, false},
		{"degraded alone", spec.Cluster{}, []string{"a status=degraded", "b status=degraded"}, "a b / ", false, false},
		{"degraded not allowed", spec.Cluster{AllowDegraded: &no, PanicPercent: &never}, []string{"a status=degraded"}, " / ", false, true},

		{"own region", spec.Cluster{}, []string{"a region=eu", "b region=us", "c"}, "a / b c", false, false},
		{"own region is away", spec.Cluster{}, []string{"a region=eu bad", "b region=us", "c region=us"}, "b c / a", false, false},
		{"too much of it is bad", spec.Cluster{}, []string{"a region=eu", "b region=eu bad", "c region=eu bad", "d region=us", "e region=us"}, "a d e / b c", false, false},
		{"half of it is enough", spec.Cluster{}, []string{"a region=eu", "b region=eu bad", "c region=us"}, "a / c b", false, false},
		{"no preference", spec.Cluster{PreferRegion: &no}, []string{"a region=eu", "b region=us"}, "a b / ", false, false},
		{"degraded at home", spec.Cluster{}, []string{"a region=eu status=degraded", "b region=us"}, "b / a", false, false},
		{"elsewhere before degraded", spec.Cluster{}, []string{"a region=eu", "b region=us", "c status=degraded", "d bad"}, "a / b c d", false, false},
	} {
		c := lined(t, row.policy, row.destinations...)
		l := c.lineUp(time.Now())
		if got := c.asked(l); got != row.want || l.panics != row.panics || l.unwell != row.unwell {
			t.Errorf("%s: %v: asked %q, panics %v, unwell %v; want %q, %v, %v", row.name, row.destinations, got, l.panics, l.unwell, row.want, row.panics, row.unwell)
		}
	}
}

// A client stays while its destination is well, wherever that is, and in a panic.
func TestWhoKeepsClients(t *testing.T) {
	c := lined(t, spec.Cluster{}, "a region=eu", "b region=us", "c status=degraded", "d bad", "e status=draining", "f weight=0", "g region=eu")
	if got := fmt.Sprint(c.lineUp(time.Now()).may); got != "[true true true false false false true]" {
		t.Errorf("may keep: %s", got)
	}
	c = lined(t, spec.Cluster{}, "a bad", "b bad", "c status=draining")
	if got := fmt.Sprint(c.lineUp(time.Now()).may); got != "[true true false]" {
		t.Errorf("may keep in a panic: %s", got)
	}
}

// The share of a destination that comes to others grows from a tenth to its
// weight, and so does that of one that is used again.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lined(t, spec.Cluster{SlowStart: spec.Duration(time.Minute)}, "a", "b weight=2")
		if c.lineUp(time.Now()).grows {
			t.Error("a share grows where all are equally old")
		}
		group := health.NewMonitor(slog.New(slog.DiscardHandler), nil).NewGroup("c", func() {})
		old, late := group.Member("a", nil), group.Member("late", nil)
		group.Enter(health.Policy{}, []*health.Member{old})
		<-time.After(time.Hour)
		group.Enter(health.Policy{}, []*health.Member{late})
		c.destinations = append(c.destinations, &destination{address: "late", weight: 3, load: &balance.Load{}, health: late})
		for _, row := range []struct {
			after       time.Duration
			share, part float64 // of the requests
			grows       bool
		}{
			{0, 0.3, 3.3, true},
			{3 * time.Second, 0.3, 3.3, true},
			{30 * time.Second, 1.5, 4.5, true},
			{59 * time.Second, 2.95, 5.95, true},
			{time.Minute, 3, 6, false},
			{time.Hour, 3, 6, false},
		} {
			l := c.lineUp(time.Now().Add(row.after))
			if l.grows != row.grows {
				t.Errorf("after %v: grows %v", row.after, l.grows)
			}
			got := 0
			for turn := range uint64(6000) {
				if l.pick(turn, &exchange.Request{}) == 2 {
					got++
				}
			}
			if want := 6000 * row.share / row.part; math.Abs(float64(got)-want) > 60 {
				t.Errorf("after %v: %d of 6000 requests, want %.0f", row.after, got, want)
			}
		}
	})
}
