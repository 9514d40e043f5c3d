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
	details    func(*Table) Readiness
	logger     *slog.Logger
	access     *accesslog.Logger // nil: none is kept
}

// chain is what every request runs through.
type chain struct {
	chainOptions
	table *Table
	// inner is the steps of the embedding program around the dispatch.
	inner exchange.Handler
}

func newChain(t *Table, o chainOptions) *chain {
	t.access = newAccess(o.access, t.plan.settings.logging.Access)
	return &chain{o, t, exchange.Chain(exchange.HandlerFunc(t.dispatch), o.middleware...)}
}

// Serve runs the steps. This and answer are the one place where their order
// stands. They are one behind the other and not one inside the other, because a
// request that waits for its backend keeps the stack that it has come to.
func (c *chain) Serve(x *exchange.Exchange) {
	// Before any step sets a field, so that a client's Connection header
	// can't remove what we set.
	removeHopByHop(x)
	// Before whatever looks at the client's address, host or scheme.
	c.table.setForwarded(x)
	// Before the first answer that could be given, since every answer
	// carries the id.
	correlate(x)
	// After the id, which a line names, and before the first answer.
	c.table.logAccess(x)
	c.answer(x)
	// After whoever answered, a panic's answer included.
	echoCorrelation(x)
}

// answer runs the steps that may answer.
func (c *chain) answer(x *exchange.Exchange) {
	// The steps before are ours and small.
	defer c.recoverPanic(x)
	// Before anything is spent on a request that goes in circles.
	if endLoop(x) {
		return
	}
	stampVia(x)
	// Probes are answered whatever the table says, and cost nothing more.
	if kind := c.table.probeAt(x.Request.Target); kind != noProbe {
		c.answerProbe(x, kind)
		return
	}
	// What the embedding program adds sees every request that is no probe.
	// Matching is last: what follows is the matched route's own.
	c.inner.Serve(x)
}

// recoverPanic answers 500 when a step panicked, so that one request's trouble
// stays its own.
func (c *chain) recoverPanic(x *exchange.Exchange) {
	if cause := recover(); cause != nil {
		c.logger.Error("request panicked", "route", x.Route, "correlationId", x.CorrelationID, "err", cause, "stack", string(debug.Stack()))
		x.Fail(exchange.Problem{Status: 500, Code: "internal_error", Detail: "The gateway could not serve the request."})
	}
}
