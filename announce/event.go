package announce

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// maxEvent bounds a line. The longest holds a route, which an operator may have
// made as long as 256 KiB.
const maxEvent = 1 << 20

// event is one line of an announcement's stream.
type event struct {
	Event string `json:"event"`

	// accepted
	Lease      string          `json:"lease"`
	InstanceID string          `json:"instanceId"`
	Node       string          `json:"node"`
	Key        string          `json:"key"`
	Effective  json.RawMessage `json:"effective"`
	Notices    []string        `json:"notices"`

	// applied
	Nodes int `json:"nodes"`
	Of    int `json:"of"`

	// status, and what ends an announcement
	Status Health `json:"status"`
	Reason string `json:"reason"`

	// draining
	By string `json:"by"`
}

// decodeEvent reads a line. Events that it doesn't know are well.
func decodeEvent(line []byte) (event, error) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return event{}, fmt.Errorf("the agent sent %.100q: %w", line, err)
	}
	var fault error
	switch {
	case e.Event == "":
		fault = errors.New("no event")
	case e.Event == "accepted" && (e.Lease == "" || e.InstanceID == ""):
		fault = errors.New("no lease or no instanceId")
	case e.Nodes < 0 || e.Of < 0:
		fault = errors.New("a negative number of gateways")
	}
	if fault != nil {
		return event{}, fmt.Errorf("the agent sent %.100q: %w", line, fault)
	}
	return e, nil
}

// Drained is how a drain went.
type Drained struct {
	// Confirmed of Of live gateways send no request to the instance any more,
	// have none under way, and no connection to it open.
	Confirmed, Of int
	// Stragglers are the others.
	Stragglers []Straggler
	// Took is how long the agent waited for them.
	Took time.Duration
}

// Straggler is a gateway that did not confirm in time.
type Straggler struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// UnmarshalJSON reads the agent's answer.
func (d *Drained) UnmarshalJSON(data []byte) error {
	var answer struct {
		Confirmed, Of int
		Stragglers    []Straggler
		Took          string
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return err
	}
	took, err := time.ParseDuration(cmp.Or(answer.Took, "0s"))
	if err != nil || took < 0 || answer.Confirmed < 0 || answer.Of < 0 {
		return fmt.Errorf("is no answer to a drain: %.200q", data)
	}
	*d = Drained{answer.Confirmed, answer.Of, answer.Stragglers, took}
	return nil
}
