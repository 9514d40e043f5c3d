package health_test

import (
	"testing"
	"time"

	"grapevine/gateway/health"
	"grapevine/gateway/spec"
)

func fail(m *health.Member, n int) {
	for range n {
		m.Failed()
	}
}

// Failures in a row take a destination out. It comes back when its time is over
// and it takes a connection.
func TestEjection(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newSite("200")
		g := watch(t, health.PolicyOf(nil), s, newSite("200"))
		fail(g.members[0], 4)
		g.members[0].Succeeded()
		fail(g.members[0], 4)
		g.want("unknown unknown")
		g.members[0].Failed()
		g.want("ejected unknown")
		g.members[0].Succeeded() // a request that began before
		fail(g.members[0], 10)   // others
		<-time.After(30*time.Second - 1)
		g.want("ejected unknown")
		if n := len(s.times()); n > 0 {
			t.Errorf("asked %d times although its time is not over", n)
		}
		s.is("refuse")
		<-time.After(25 * time.Second)
		g.want("ejected unknown")
		if n := len(s.times()); n != 3 {
			t.Errorf("asked %d times in 25 s, want one each 10 s", n)
		}
		s.is("hang") // it takes connections, and that is all that is asked
		<-time.After(11 * time.Second)
		g.want("unknown unknown")
		fail(g.members[0], 4)
		g.want("unknown unknown")
		asked := len(s.times())
		<-time.After(time.Minute)
		if n := len(s.times()) - asked; n > 0 {
			t.Errorf("asked %d times although it is used", n)
		}
		if n := g.log.count("destination is ejected"); n != 1 {
			t.Errorf("said %d times that it is ejected", n)
		}
	})
}

// Each ejection that follows soon is longer, up to ten times. One that held out
// begins anew.
func TestEjectionsGrow(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newSite("200")
		g := watch(t, health.PolicyOf(nil), s, newSite("200"))
		out := func() time.Duration {
			fail(g.members[0], 5)
			begun := time.Now()
			for g.states() == "ejected unknown" {
				<-time.After(time.Second)
			}
			return time.Since(begun)
		}
		for i := 1; i <= 12; i++ {
			if got, want := out(), time.Duration(min(i, 10))*30*time.Second; got != want {
				t.Errorf("ejection %d: out for %v, want %v", i, got, want)
			}
		}
		<-time.After(6 * time.Minute)
		if got := out(); got != 30*time.Second {
			t.Errorf("after six good minutes: out for %v", got)
		}
		if r := g.members[0].Report(); r.Ejections != 13 || !r.Until.IsZero() || r.State != health.Unknown {
			t.Errorf("report %+v", r)
		}
	})
}

// Never more than the share is out, so never a single one.
func TestMaxEjected(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		for _, row := range []struct {
			destinations, percent, want int
		}{{1, 50, 0}, {2, 50, 1}, {3, 50, 1}, {4, 50, 2}, {4, 100, 4}, {1, 100, 1}, {9, 10, 0}, {10, 10, 1}} {
			var sites []*site
			for range row.destinations {
				sites = append(sites, newSite("200"))
			}
			p := health.PolicyOf(&spec.Health{Passive: &spec.PassiveHealth{MaxEjectedPercent: row.percent}})
			g := watch(t, p, sites...)
			for _, m := range g.members {
				fail(m, 20)
			}
			n := 0
			for _, m := range g.members {
				if m.State() == health.Ejected {
					n++
				}
			}
			if n != row.want {
				t.Errorf("%d of %d are out with %d %%, want %d", n, row.destinations, row.percent, row.want)
			}
			g.Close()
		}
	})
}

// What this node's requests met with outranks what checks say: a good answer to
// a check does not end an ejection, and a bad one outlasts it.
func TestOwnFailuresOutrankChecks(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		p := asking()
		p.Failures, p.EjectFor, p.MaxPercent = 5, 30*time.Second, 100
		s := newSite("200")
		g := watch(t, p, s)
		<-time.After(time.Second)
		fail(g.members[0], 5)
		<-time.After(29 * time.Second)
		g.want("ejected")
		<-time.After(2 * time.Second)
		g.want("healthy")
		fail(g.members[0], 5)
		s.is("500")
		<-time.After(61 * time.Second)
		g.want("unhealthy")
		off := asking()
		fail(g.members[0], 5)
		g.Enter(off, g.members)
		g.want("unhealthy")
	})
}

// What checks find bad is not ejected as well: requests reach it in a panic alone,
// and the checks say when it is well.
func TestUnhealthyIsNotEjected(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		p := asking()
		p.Failures, p.EjectFor, p.MaxPercent = 5, 30*time.Second, 100
		s := newSite("refuse")
		g := watch(t, p, s)
		<-time.After(2 * time.Second)
		fail(g.members[0], 20)
		g.want("unhealthy")
		s.answers("200", 2)
		g.want("healthy")
		fail(g.members[0], 4)
		g.want("healthy")
	})
}

// One that was out begins its share anew, and so does one that comes to others.
func TestUsedSince(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		g := watch(t, health.PolicyOf(nil), newSite("200"), newSite("200"))
		for _, m := range g.members {
			if !m.UsedSince().IsZero() {
				t.Error("a destination is new although all are")
			}
		}
		<-time.After(time.Minute)
		late := g.Member("http://late", newSite("200").dial)
		g.Enter(health.PolicyOf(nil), []*health.Member{late})
		if !late.UsedSince().Equal(time.Now()) {
			t.Errorf("one that came later is used since %v", late.UsedSince())
		}
		fail(g.members[0], 5)
		<-time.After(40 * time.Second)
		if got := time.Since(g.members[0].UsedSince()); got != 10*time.Second {
			t.Errorf("used again since %v, want 10 s", got)
		}
	})
}
