package gateway

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"grapevine/gateway/exchange"
)

const codeMaintenance = "maintenance"

// turnAway answers a new request.
func (w *window) turnAway(x *exchange.Exchange, now time.Time) {
	w.tally.turnedAway.Add(1)
	w.answer(x, now)
}

// answer is what a client gets that is not served.
func (w *window) answer(x *exchange.Exchange, now time.Time) {
	seconds := int(math.Ceil(w.retryAfter(now).Seconds()))
	retryAfter := exchange.Field{Name: []byte("Retry-After"), Value: strconv.AppendInt(nil, int64(seconds), 10)}
	body := w.spec.Body
	if body == "" {
		x.Fail(exchange.Problem{Status: 503, Code: codeMaintenance, Detail: w.detail(), Fields: exchange.Fields{retryAfter}})
		return
	}
	x.Reason = codeMaintenance
	x.Respond(503, typeOf(body), []byte(body))
	x.Response.Fields = append(x.Response.Fields, retryAfter)
}

// detail is a sentence for the client.
func (w *window) detail() string {
	what := "The service is under maintenance"
	if w.spec.Reason == "" {
		return what + "."
	}
	return what + ": " + strings.TrimSuffix(w.spec.Reason, ".") + "."
}

// typeOf is the media type of a body that somebody has written into the
// configuration: HTML, JSON or text.
func typeOf(body string) string {
	switch {
	case strings.HasPrefix(strings.TrimSpace(body), "<"):
		return "text/html; charset=utf-8"
	case json.Valid([]byte(body)):
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// answerRecalled answers for a request that waited for the cluster until the grace
// of a maintenance was over.
func (c *cluster) answerRecalled(x *exchange.Exchange) {
	if w := c.state.recalled.Load(); w != nil {
		w.answer(x, time.Now())
		return
	}
	x.Fail(exchange.Problem{Status: 503, Code: codeMaintenance, Detail: "The service is under maintenance.", Fields: exchange.Fields{retryAfter}})
}
