package api

import (
	"context"

	"grapevine/kv"
)

// fresh waits until the store is as far as the request wants it to be.
func (a *API) fresh(c *call) error {
	linearizable, text := c.query["consistency"] == "linearizable", c.query["atLeast"]
	var least kv.Rev
	if text != "" {
		var err error
		if least, err = kv.ParseRev(text, a.epoch()); err != nil {
			return fail(codeBadRequest, "atLeast: %v", err)
		}
	}
	return a.within(c, func(ctx context.Context) error {
		if linearizable {
			if err := a.Cluster.Read(ctx); err != nil {
				return err
			}
		}
		return a.reach(ctx, least)
	})
}

// reach returns when the store has the revision or a later one.
func (a *API) reach(ctx context.Context, least kv.Rev) error {
	for {
		changed := a.Store.Changed()
		now := a.Store.View().Rev()
		if now.Compare(least) >= 0 {
			return nil
		}
		select {
		case <-changed:
		case <-a.closing:
			return fail(codeNotReady, "revision %s: this node is at %s, and stops", least, now)
		case <-ctx.Done():
			if ctx.Err() == context.Canceled { // the client left
				return ctx.Err()
			}
			f := fail(codeTimeout, "revision %s: this node is at %s, and was so until the time was over", least, now)
			f.rev = now.String()
			return f
		}
	}
}
