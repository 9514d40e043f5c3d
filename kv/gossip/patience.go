package gossip

import (
	"context"
	"time"
)

// pullFunc pulls from a member, and calls came whenever something has come.
type pullFunc func(ctx context.Context, source Member, came func()) error

// patiently pulls from a member for as long as that takes: the network may be slow. As long
// as nothing comes, others are asked beside it, one after the other, each until nothing
// comes of it either: the network may be fine, but for a connection that TCP holds up after
// losses. The first to succeed ends the rest. beside names whom to ask next, the
// zero Member for nobody yet; false means that there is nothing left to ask for.
func (q *puller) patiently(source Member, pull pullFunc, beside func() (Member, bool)) error {
	ctx, cancel := context.WithTimeout(q.peer.ctx, pullTime)
	defer cancel()
	still := time.NewTimer(pullPatience)
	defer still.Stop()
	done := make(chan error, 1)
	go func() {
		err := pull(ctx, source, func() { still.Reset(pullPatience) })
		if err == nil {
			cancel()
		}
		done <- err
	}()
	pauses := backoff{least: leastPause, most: failedPause}
	for {
		select {
		case err := <-done:
			return err
		case <-still.C:
		}
		other, wanted := beside()
		if !wanted || other.ID != "" && impatiently(ctx, other, pull) == nil {
			cancel()
			<-done
			return nil
		}
		still.Reset(pauses.next())
	}
}

// impatiently pulls from a member until nothing comes for a while.
func impatiently(ctx context.Context, source Member, pull pullFunc) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	still := time.AfterFunc(pullPatience, cancel)
	defer still.Stop()
	return pull(ctx, source, func() { still.Reset(pullPatience) })
}
