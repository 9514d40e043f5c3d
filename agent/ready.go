package agent

import (
	"fmt"
	"strings"
	"time"

	"grapevine/agent/api"
)

// bootGrace is how long a node that starts waits for news of its cluster before it takes traffic with what its disk holds.
// A leader is found, and what was missed is fetched, in a second or two; when nobody is there, what the disk holds is
// served, however old.
const bootGrace = 5 * time.Second

// waiting says why the node should get no traffic so far, beside what its gateway knows: it may not have heard what its
// cluster serves. Once it has, it never waits again, whoever is lost.
func (a *Agent) waiting() string {
	if a.cluster == nil || a.synced.Load() {
		return ""
	}
	why := "it has not joined its cluster yet"
	if !a.cluster.Joining() {
		why = behind(a.cluster.Standing(), a.cluster.Members(), time.Since(a.started))
	}
	if why == "" {
		a.synced.Store(true)
	}
	return why
}

// behind says what a node that runs for a time lacks of what its cluster serves; nothing when there is nobody to ask, or
// the time to ask is over. One that holds nothing waits as long as somebody has something.
func behind(s api.Standing, members []api.Member, running time.Duration) string {
	self := api.Member{}
	for _, m := range members {
		if m.Self {
			self = m
		}
	}
	empty := self.Applied == "" || strings.HasSuffix(self.Applied, ".0")
	alone := s.Voters == 1 && self.Role == "voter"
	switch {
	case s.Cluster == "" || alone:
		return "" // in none, or there is nobody else
	case self.Lag > 0 && (running < bootGrace || empty):
		return fmt.Sprintf("it is %d revisions behind its cluster", self.Lag)
	case s.Leader == "" && running < bootGrace:
		return fmt.Sprintf("it waits up to %s for news of its cluster", bootGrace)
	}
	return ""
}
