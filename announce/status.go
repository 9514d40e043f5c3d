package announce

import "encoding/json"

// Health is what an instance says of itself, and what the agent takes it for.
type Health string

// The states of health, best first. An instance of which nothing is known is healthy.
const (
	Healthy   Health = "healthy"   // gets requests
	Degraded  Health = "degraded"  // gets them while no healthy one is there
	Unhealthy Health = "unhealthy" // gets none
)

// State is how far an announcement is.
type State string

// The states of an announcement.
const (
	Connecting State = "connecting" // the agent isn't there, not yet or not at the moment
	Announced  State = "announced"  // the agent has it
	Draining   State = "draining"   // no new requests are to come; those under way end
	Ended      State = "ended"      // by Close, or for the reason that Err gives
)

// Status is what is known of an announcement at a moment. Whoever reads it must
// not change what it points to.
type Status struct {
	State    State
	Instance string // its id; empty until the agent has made one
	Key      string // under which every node has it
	Node     string // the id of the agent's node

	// Applied of Of live gateways serve the instance. Both are 0 until that is known.
	Applied, Of int
	// Health is what the agent takes the instance for, and Reason why; also why it drains.
	Health Health
	Reason string

	// Effective is the route as it is served, as JSON: an operator's may win over
	// the announced one, and instances may contradict each other, of which
	// Notices tell. It is null where no gateway is on the agent's node.
	Effective json.RawMessage
	Notices   []string
}
