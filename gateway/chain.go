package gateway

import (
	"log/slog"
	"runtime/debug"

	"grapevine/gateway/accesslog"
	"grapevine/gateway/exchange"
)

// chainOptions are the parts of the chain that no table decides.
type chainOptions struct {
	middleware []exchange.Middleware
	ready      func(*Table) (bool, string)
	logger     *slog.Logger
	access     *accesslog.Logger // nil: none is kept
}

// chain composes the steps of every request. This is the one place where their
// order stands.
func (t *Table) chain(o chainOptions) exchange.Handler {
	t.access = newAccess(o.access, t.plan.settings.logging.Access)
	steps := []exchange.Middleware{
		// Before any step sets a field, so that a client's Connection header
		// can't remove what we set.
		removeHopByHop,
		// Before whatever looks at the client's address, host or scheme.
		t.setForwarded,
		// Before the first answer that could be given, since every answer
		// carries the id.
		correlate,
		// After the id, which a line names, and before the first answer.
		t.logAccess,
		// Inside of the id, so that the answer to a panic carries it too; the
		// steps before are ours and small.
		recoverPanics(o.logger),
		// Before anything is spent on a request that goes in circles.
		stampVia,
		// Probes are answered whatever the table says, and cost nothing more.
		t.answerProbes(o.ready),
	}
	// What the embedding program adds sees every request that is no probe.
	steps = append(steps, o.middleware...)
	// Matching is last: what follows is the matched route's own.
	return exchange.Chain(exchange.HandlerFunc(t.dispatch), steps...)
}

// recoverPanics answers 500 when a step panics, so that one request's trouble
// stays its own.
func recoverPanics(logger *slog.Logger) exchange.Middleware {
	return func(next exchange.Handler) exchange.Handler {
		return exchange.HandlerFunc(func(x *exchange.Exchange) {
			defer func() {
				if cause := recover(); cause != nil {
					logger.Error("request panicked", "route", x.Route, "correlationId", x.CorrelationID, "err", cause, "stack", string(debug.Stack()))
					x.Fail(exchange.Problem{Status: 500, Code: "internal_error", Detail: "The gateway could not serve the request."})
				}
			}()
			next.Serve(x)
		})
	}
}
