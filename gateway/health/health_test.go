package health_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"grapevine/gateway/health"
	"grapevine/gateway/spec"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// asking is a policy of checks alone: /alive each second, bad after 3, good after 2.
func asking() health.Policy {
	off := false
	return health.PolicyOf(&spec.Health{
		Active:  &spec.ActiveHealth{Path: "/alive", Interval: spec.Duration(time.Second), Timeout: spec.Duration(900 * time.Millisecond)},
		Passive: &spec.PassiveHealth{Enabled: &off},
	})
}

func TestDefaults(t *testing.T) {
	p := health.PolicyOf(nil)
	if p.Asked || p.Failures != 5 || p.EjectFor != 30*time.Second || p.MaxPercent != 50 {
		t.Errorf("of nothing: %+v", p)
	}
	for code, fails := range map[int]bool{200: false, 404: false, 500: false, 502: true, 503: true, 504: true, 999: false, 0: false} {
		if p.Statuses.Has(code) != fails {
			t.Errorf("status %d fails: %v", code, !fails)
		}
	}
	a := health.PolicyOf(&spec.Health{Active: &spec.ActiveHealth{}})
	if want := (health.Check{Interval: 10 * time.Second, Timeout: 2 * time.Second, Rise: 2, Fall: 3}); !a.Asked || a.Check != want {
		t.Errorf("active: %+v; want %+v", a.Check, want)
	}
	short := health.PolicyOf(&spec.Health{Active: &spec.ActiveHealth{Interval: spec.Duration(time.Second)}}).Check
	if short.Timeout != time.Second {
		t.Errorf("the default timeout is %v for an interval of %v", short.Timeout, short.Interval)
	}
}

// The first answer decides alone, later ones in a row.
func TestRiseAndFall(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s, dead := newSite("204"), newSite("refuse")
		g := watch(t, asking(), s, dead)
		g.want("unknown unknown")
		<-time.After(time.Second)
		g.want("healthy unhealthy")
		s.answers("500", 2)
		g.want("healthy unhealthy")
		s.answers("200", 1) // breaks the row
		s.answers("500", 2)
		g.want("healthy unhealthy")
		s.answers("500", 1)
		g.want("unhealthy unhealthy")
		s.answers("200", 1)
		s.answers("302", 1)
		s.answers("200", 1)
		g.want("unhealthy unhealthy")
		s.answers("200", 1)
		g.want("healthy unhealthy")
		if n := g.changes.Load(); n != 5 { // entering, two first answers, down, up
			t.Errorf("%d changes", n)
		}
		if n := g.log.count("destination is unhealthy"); n != 2 {
			t.Errorf("said %d times that one is unhealthy", n)
		}
		if n := g.log.count("destination is used again"); n != 1 {
			t.Errorf("said %d times that one is used again", n)
		}
	})
}

// What is asked, and what is a good answer.
func TestQuestion(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		for _, row := range []struct {
			active spec.ActiveHealth
			answer string
			want   string
		}{
			{spec.ActiveHealth{Path: "/alive"}, "200", "healthy"},
			{spec.ActiveHealth{Path: "/alive"}, "301", "unhealthy"},
			{spec.ActiveHealth{Path: "/alive"}, "404", "unhealthy"},
			{spec.ActiveHealth{Path: "/alive"}, "hang", "unhealthy"},
			{spec.ActiveHealth{Path: "/alive", Status: []spec.Status{301, 404}}, "404", "healthy"},
			{spec.ActiveHealth{Path: "/alive", Status: []spec.Status{301, 404}}, "200", "unhealthy"},
			{spec.ActiveHealth{}, "hang", "healthy"}, // a connection is enough
			{spec.ActiveHealth{}, "refuse", "unhealthy"},
		} {
			row.active.Host = "name.example"
			s := newSite(row.answer)
			g := watch(t, health.PolicyOf(&spec.Health{Active: &row.active}), s)
			<-time.After(4 * time.Second)
			g.want(row.want)
			g.Leave(g.members)
			if r := s.last; r != nil && (r.Method != "GET" || r.RequestURI != "/alive" || r.Host != "name.example" || r.UserAgent() != "grapevine-health") {
				t.Errorf("asked %s %s of %s as %s", r.Method, r.RequestURI, r.Host, r.UserAgent())
			}
		}
	})
}

// A check an interval for each address, whatever its state was and whatever others
// do; one that hangs delays nobody (O22).
func TestOneCheckAnInterval(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		restless, hangs, steady := newSite("200"), newSite("hang"), newSite("200")
		g := watch(t, asking(), restless, hangs, steady)
		for i := range 10 { // down and up five times
			restless.is([]string{"500", "200"}[i%2])
			<-time.After(10 * time.Second)
		}
		for name, s := range map[string]*site{"restless": restless, "hangs": hangs, "steady": steady} {
			times := s.times()
			if n := len(times); n < 98 || n > 102 {
				t.Errorf("%s: asked %d times in 100 s", name, n)
			}
			for i, at := range times[1:] {
				if gap := at.Sub(times[i]); gap < 900*time.Millisecond || gap > 1101*time.Millisecond {
					t.Errorf("%s: %v between two checks", name, gap)
				}
			}
			if s.most != 1 {
				t.Errorf("%s: %d checks at a time", name, s.most)
			}
		}
		if n := g.log.count("destination is used again"); n != 5 {
			t.Errorf("used again %d times", n)
		}
	})
}

// Clusters that ask an address in the same way share the checks; those that ask
// in another way wait for their turn.
func TestChecksAreShared(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newSite("hang")
		g := watch(t, asking(), s)
		g.join(asking(), s)
		other := asking()
		other.Check.Path, other.Check.Timeout = "/other", 500*time.Millisecond
		g.join(other, s)
		<-time.After(20 * time.Second)
		g.want("unhealthy unhealthy unhealthy")
		if n := len(s.times()); n < 20 || n > 42 { // two questions, each at most once a second
			t.Errorf("asked %d times in 20 s", n)
		}
		if s.most != 1 {
			t.Errorf("%d checks of an address at a time", s.most)
		}
		g.monitor.Checks(func(_ string, good, bad uint64) {
			if good != 0 || bad < 10 {
				t.Errorf("counted %d good and %d bad answers", good, bad)
			}
		})
	})
}

// Of a destination that goes nothing is left, and one that stays goes on as it is.
func TestLeave(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		stays, goes := newSite("500"), newSite("500")
		g := watch(t, asking(), stays, goes)
		<-time.After(5 * time.Second)
		g.want("unhealthy unhealthy")
		g.Enter(asking(), g.members[:1]) // another table
		g.Leave(g.members)
		g.want("unhealthy unhealthy") // what is held of the gone one means nothing
		asked := len(goes.times())
		<-time.After(5 * time.Second)
		if n := len(goes.times()) - asked; n > 0 {
			t.Errorf("asked %d times after it was gone", n)
		}
		var shown []string
		g.monitor.Each(func(m *health.Member) { shown = append(shown, m.Report().Address) })
		if strings.Join(shown, " ") != "http://site0" {
			t.Errorf("shown: %q", shown)
		}
		if again := g.Member("http://site1", goes.dial); again == g.members[1] || again.State() != health.Unknown {
			t.Error("an address that comes again is what it was")
		}
		g.Leave(g.members[:1])
		g.monitor.Each(func(m *health.Member) { t.Errorf("%s is shown still", m.Report().Address) })
		g.monitor.Checks(func(address string, _, _ uint64) { t.Errorf("%s is asked still", address) })
	})
}

// A change of the policy keeps what is known until the new checks say something.
func TestPolicyChanges(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newSite("500")
		g := watch(t, asking(), s)
		<-time.After(5 * time.Second)
		lenient := asking()
		lenient.Check.Statuses = "500"
		g.Enter(lenient, g.members)
		g.Leave(g.members)
		g.want("unhealthy")
		<-time.After(time.Second)
		g.want("healthy")
		g.Enter(health.Policy{}, g.members)
		g.want("unknown")
		if n := len(s.times()); n > 8 {
			t.Errorf("asked %d times", n)
		}
	})
}
