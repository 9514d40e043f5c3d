package gateway

import (
	"slices"
	"time"

	"grapevine/gateway/balance"
	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// lineup says which destinations of a cluster are asked, with what is known of
// their health. It never changes: another one takes its place.
type lineup struct {
	// balancer has all destinations; those that are not asked have no weight.
	balancer *balance.Balancer
	// rest are asked when none of the balancer's can be reached, the best first.
	rest []int
	// may tells which ones keep the clients that they have.
	may []bool
	// unwell is set when there are destinations and none may be asked.
	unwell bool
	// panics is set when so few are healthy that all are asked.
	panics bool
	// grows is set while the share of one does.
	grows bool
}

// pick gives the index of the destination to try first, -1 when there is none.
func (l *lineup) pick(turn uint64, x *exchange.Request) int { return l.balancer.Pick(turn, x) }

// after gives the one to try when those of the indexes in tried could not be
// reached, -1 when none is left.
func (l *lineup) after(tried []int, x *exchange.Request) int {
	if next := l.balancer.After(tried, x); next >= 0 {
		return next
	}
	for _, next := range l.rest {
		if !slices.Contains(tried, next) {
			return next
		}
	}
	return -1
}

// How good a destination is, the best first. Those of one grade are asked; the
// others are the rest.
const (
	gradeNear     = iota // healthy and in the node's own region
	gradeHealthy         // healthy elsewhere
	gradeDegraded        // says that it is not quite well
	gradeOrphaned        // nobody vouches for it, and nothing speaks against it
	gradeLeaving         // an instance that is draining: better than none
	gradeBad             // unhealthy or ejected
	gradeNone            // draining or without weight: never asked
)

// lineUp makes a lineup of what is known now.
func (c *cluster) lineUp(now time.Time) *lineup {
	grades := make([]int, len(c.destinations))
	for i, d := range c.destinations {
		grades[i] = c.grade(d)
	}
	l := &lineup{may: make([]bool, len(grades))}
	last := c.lastGrade(grades)
	l.panics = last == gradeBad
	targets := make([]balance.Target, len(grades))
	for i, d := range c.destinations {
		targets[i] = balance.Target{Address: d.address, Load: d.load}
		if grades[i] <= last && (grades[i] != gradeLeaving || last == gradeLeaving) {
			targets[i].Weight = d.weight
		} else if grades[i] < gradeBad || grades[i] == gradeBad && c.panicPercent() > 0 {
			l.rest = append(l.rest, i)
		}
		l.may[i] = grades[i] < gradeLeaving || targets[i].Weight > 0
	}
	slices.SortStableFunc(l.rest, func(a, b int) int { return grades[a] - grades[b] })
	l.unwell = slices.Contains(grades, gradeBad) && !slices.Contains(l.may, true)
	l.grows = c.slowStart(targets, now)
	l.balancer = balance.New(c.planned.policy.LoadBalancing, c.planned.policy.HashOn, targets)
	return l
}

func (c *cluster) grade(d *destination) int {
	degraded, draining := d.status == statusDegraded, d.status == statusDraining
	switch {
	case d.weight <= 0 || d.isShut() || draining && (d.instance == nil || !d.health.State().Usable()):
		return gradeNone
	case !d.health.State().Usable() || d.status == statusUnhealthy || degraded && !c.allowsDegraded():
		return gradeBad
	case draining:
		return gradeLeaving
	case d.orphaned():
		return gradeOrphaned
	case degraded:
		return gradeDegraded
	case c.near(d):
		return gradeNear
	default:
		return gradeHealthy
	}
}

const (
	statusDegraded  = "degraded"
	statusDraining  = "draining"
	statusUnhealthy = "unhealthy"
)

// lastGrade is the worst grade that is asked beside those before it. With too
// few that can be used all are asked: the load of the whole cluster would bring
// down those that are left, and many that fail at once may be the check's own
// trouble. The node's own region is enough as long as that does not hold of it, and
// so are those for whom somebody vouches. Degraded ones wait until no healthy one is
// left, and those that are draining until nobody else is: so they never come with
// others, see lineUp.
func (c *cluster) lastGrade(grades []int) int {
	var n [gradeNone + 1]int
	for _, grade := range grades {
		n[grade]++
	}
	near, healthy := n[gradeNear], n[gradeNear]+n[gradeHealthy]
	vouched := healthy + n[gradeDegraded]
	usable := vouched + n[gradeOrphaned]
	all, percent := usable+n[gradeBad], c.panicPercent()
	switch {
	case usable == 0 && n[gradeLeaving] > 0:
		return gradeLeaving
	case percent > 0 && usable*100 < percent*all:
		return gradeBad
	case n[gradeOrphaned] > 0 && vouched*100 < max(percent, 1)*usable:
		return gradeOrphaned
	case near > 0 && near*100 >= percent*c.nearby():
		return gradeNear
	case healthy > 0:
		return gradeHealthy
	default:
		return gradeDegraded
	}
}

// nearby counts the destinations of the node's own region that may be asked.
func (c *cluster) nearby() (n int) {
	for _, d := range c.destinations {
		if d.weight > 0 && d.status != statusDraining && c.near(d) {
			n++
		}
	}
	return n
}

func (c *cluster) near(d *destination) bool {
	prefer := c.planned.policy.PreferRegion
	return c.region != "" && d.region == c.region && (prefer == nil || *prefer)
}

func (c *cluster) allowsDegraded() bool {
	allow := c.planned.policy.AllowDegraded
	return allow == nil || *allow
}

func (c *cluster) panicPercent() int {
	if percent := c.planned.policy.PanicPercent; percent != nil {
		return *percent
	}
	return spec.DefaultPanicPercent
}

const (
	// slowScale gives weights the room to be a part of what they are.
	slowScale = 100
	// slowLeast is the share with which a destination begins.
	slowLeast = 0.1
	// slowSteps are how many lineups there are while a share grows.
	slowSteps = 20
)

// slowStart lets the share of a new destination grow, and tells whether one does.
func (c *cluster) slowStart(targets []balance.Target, now time.Time) (grows bool) {
	ramp := time.Duration(c.planned.policy.SlowStart)
	if ramp <= 0 {
		return false
	}
	shares := make([]float64, len(targets))
	for i, d := range c.destinations {
		shares[i] = 1
		if since := d.health.UsedSince(); !since.IsZero() && targets[i].Weight > 0 {
			shares[i] = min(max(float64(now.Sub(since))/float64(ramp), slowLeast), 1)
		}
		grows = grows || shares[i] < 1
	}
	if !grows {
		return false
	}
	for i := range targets {
		if weight := targets[i].Weight; weight > 0 {
			targets[i].Weight = max(int(float64(weight*slowScale)*shares[i]), 1)
		}
	}
	return true
}
