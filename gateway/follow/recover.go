package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"grapevine/announce/reach"
)

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tellLost is told of each stream and each attempt that failed.
func (s *Source) tellLost(o *reach.Outage, err error) {
	if untold, tell := o.Lost(); tell {
		s.logger.Warn("the agent can't be followed; what it said last is served, and it is tried again", "err", err, "untold", untold)
	}
}

// tellFound is told of each state that was taken.
func (s *Source) tellFound(o *reach.Outage, p reach.Place) {
	if attempts, tell := o.Over(); tell {
		s.logger.Info("following an agent", "agent", p.String(), "rev", s.View().Rev().String(), "attempts", attempts)
	}
}

// maxProblem bounds what is read of a refusal.
const maxProblem = 64 << 10

// refusal reads a problem document (RFC 9457), or whatever else an answer is.
func refusal(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem)) // what broke off still says something
	var problem struct{ Code, Detail string }
	if json.Unmarshal(body, &problem) == nil && problem.Detail != "" {
		return fmt.Errorf("%d %s: %s", response.StatusCode, problem.Code, problem.Detail)
	}
	return fmt.Errorf("%s: an answer that is none of an agent: %.200q", response.Status, body)
}
