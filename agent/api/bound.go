package api

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// MaxBound is the longest that a request may ask the API to take.
const MaxBound = 10 * time.Minute

// timeout is how long the client lets the request take, 0 where it doesn't say.
func (q query) timeout() (time.Duration, error) {
	text, given := q["timeout"]
	if !given {
		return 0, nil
	}
	bound, err := time.ParseDuration(text)
	if err != nil || bound <= 0 || bound > MaxBound {
		return 0, fail(codeBadRequest, "timeout %q: not a duration above zero and up to %s, like 5s", text, MaxBound)
	}
	return bound, nil
}

// within asks the cluster for something, in the time that the request has.
func (a *API) within(c *call, ask func(context.Context) error) error {
	bound := cmp.Or(c.timeout, a.Bound)
	ctx, cancel := context.WithTimeout(context.WithValue(c.r.Context(), authorKey{}, c.author()), bound)
	defer cancel()
	err := ask(ctx)
	switch {
	case failureOf(err) != nil || !errors.Is(err, context.DeadlineExceeded):
		return err
	case c.reads():
		return fail(codeTimeout, "no answer within %s", bound)
	}
	return fail(codeUnknownOutcome, "no answer within %s", bound)
}
