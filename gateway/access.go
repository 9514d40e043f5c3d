package gateway

import (
	"grapevine/gateway/accesslog"
	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// access hands the lines of a table's requests to the log.
type access struct {
	logger *accesslog.Logger
	policy *accesslog.Policy
}

// newAccess gives nil when nothing is to be written.
func newAccess(logger *accesslog.Logger, section *spec.AccessLog) *access {
	policy := accesslog.NewPolicy(section)
	if logger == nil || policy == nil {
		return nil
	}
	return &access{logger, policy}
}

// Finished writes the line.
func (a *access) Finished(x *exchange.Exchange, err error) { a.logger.Log(a.policy, x, err) }

// logAccess has a line written when the exchange has ended. What the client
// asked for is remembered, since later steps change the target.
func (t *Table) logAccess(x *exchange.Exchange) {
	if t.access != nil {
		x.Asked = x.Request.Target
		x.OnFinish(t.access)
	}
}
