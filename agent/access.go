package agent

import (
	"context"
	"time"
)

// accessTimeout bounds the wait for an output that does not take the last lines of the access log.
const accessTimeout = 2 * time.Second

// startAccessLog writes lines until stop is called; stop waits for the last ones.
func (a *Agent) startAccessLog() (stop func()) {
	if a.access == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.access.Run(ctx) }()
	return func() {
		cancel()
		bound, release := a.untilForced(accessTimeout)
		defer release()
		select {
		case err := <-done:
			if err != nil {
				a.logger.Warn("the last lines of the access log are lost", "err", err)
			}
		case <-bound.Done():
			a.logger.Warn("the last lines of the access log are lost: its output does not take them")
		}
	}
}
