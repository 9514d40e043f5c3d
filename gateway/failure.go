package gateway

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"grapevine/gateway/exchange"
	"grapevine/gateway/limit"
)

// retryAfter tells a client when a passing trouble may be over.
var retryAfter = exchange.Field{Name: []byte("Retry-After"), Value: []byte("1")}

func failNotReady(x *exchange.Exchange) {
	x.Fail(exchange.Problem{Status: 503, Code: "not_ready", Detail: "No route table is loaded.", Fields: exchange.Fields{retryAfter}})
}

// failNoDestination answers for a cluster that has none to ask: at all, or none
// that is well.
func failNoDestination(x *exchange.Exchange, cluster string, l *lineup) {
	p := exchange.Problem{
		Status: 503, Code: "no_destination", Detail: fmt.Sprintf("cluster %s has no destination.", cluster),
		Fields: exchange.Fields{retryAfter},
	}
	if l.unwell {
		p.Code, p.Detail = "no_healthy_destination", fmt.Sprintf("cluster %s has no healthy destination.", cluster)
	}
	x.Fail(p)
}

func failQuarantined(x *exchange.Exchange, route string) {
	x.Fail(exchange.Problem{
		Status: 503, Code: "route_quarantined", Detail: fmt.Sprintf("Route %s has no valid configuration.", route),
		Fields: exchange.Fields{retryAfter},
	})
}

func phaseOf(err error) exchange.Phase {
	var attempt *exchange.AttemptError
	if errors.As(err, &attempt) {
		return attempt.Phase
	}
	return exchange.PhaseExchange
}

// failAttempt answers for a failed attempt. It is the one place where a
// failure of an upstream becomes a status; addresses stay in the log.
func failAttempt(x *exchange.Exchange, err error) {
	switch phase := phaseOf(err); {
	case phase == exchange.PhaseRecalled: // what it gets is said by who has recalled it
		x.Response.Status = 0
	case phase == exchange.PhaseClientGone, phase == exchange.PhaseRequestBody && brokeOff(err):
		x.Response.Status, x.Reason = 0, "client_gone"
	case phase == exchange.PhaseRequestBody && tooLarge(err) != nil:
		failBodyTooLarge(x, tooLarge(err).Most)
	case phase == exchange.PhaseRequestBody && errors.Is(err, exchange.ErrTimeout):
		x.Fail(exchange.Problem{Status: 408, Code: "request_timeout", Detail: "The request's body did not come in time."})
	case phase == exchange.PhaseRequestBody:
		x.Fail(exchange.Problem{Status: 400, Code: "bad_request_body", Detail: "The request's body is malformed."})
	case phase == exchange.PhaseTimeout:
		x.Fail(exchange.Problem{Status: 504, Code: "timeout", Detail: "The service did not answer in time."})
	case phase == exchange.PhaseConnect && errors.Is(err, exchange.ErrTimeout):
		x.Fail(exchange.Problem{Status: 504, Code: "connect_timeout", Detail: "The service could not be reached in time."})
	case phase == exchange.PhaseConnect:
		x.Fail(exchange.Problem{Status: 502, Code: "connect_failed", Detail: "The service could not be reached."})
	default:
		x.Fail(exchange.Problem{Status: 502, Code: "bad_response", Detail: "The service closed the connection or sent no valid response."})
	}
}

// tooLarge is why a body is not taken that is longer than its route's limit, nil
// for other errors.
func tooLarge(err error) *limit.BodyError {
	reason, _ := errors.AsType[*limit.BodyError](err)
	return reason
}

// reachedNobody tells that no destination got a byte of the request.
func reachedNobody(err error) bool {
	return err != nil && (triedNobody(err) || phaseOf(err) == exchange.PhaseConnect)
}

// brokeOff tells whether a request's body has no end because its client left in
// the midst of it.
func brokeOff(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}
