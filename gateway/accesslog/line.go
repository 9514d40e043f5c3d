package accesslog

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"grapevine/gateway/exchange"
)

// field is one that a line may have. write appends a JSON value.
type field struct {
	name  string
	asked bool // only there when the configuration names it
	write func(line []byte, e *entry) []byte
}

// entry is a request that has ended.
type entry struct {
	*exchange.Exchange
	err error
	now time.Time
}

// fields in the order of a line. None holds a header or the value of a
// parameter, where secrets are; the agent and the referring page only when they
// are asked for, and the page without its query.
var fields = []field{
	{name: "method", write: func(line []byte, e *entry) []byte { return appendText(line, e.Request.Method) }},
	{name: "host", write: func(line []byte, e *entry) []byte { return appendText(line, e.Request.Authority) }},
	{name: "path", write: func(line []byte, e *entry) []byte { return appendText(line, e.path()) }},
	{name: "protocol", write: func(line []byte, e *entry) []byte { return appendText(line, e.Request.Protocol) }},
	{name: "scheme", write: func(line []byte, e *entry) []byte { return appendText(line, e.Request.Scheme) }},
	{name: "client", write: func(line []byte, e *entry) []byte { return appendAddr(line, e.Request.Client) }},
	{name: "peer", asked: true, write: func(line []byte, e *entry) []byte { return appendAddr(line, e.Request.Peer.Addr()) }},
	{name: "status", write: func(line []byte, e *entry) []byte { return strconv.AppendInt(line, int64(e.status()), 10) }},
	{name: "reason", write: func(line []byte, e *entry) []byte { return appendText(line, e.reason()) }},
	{name: "route", write: func(line []byte, e *entry) []byte { return appendText(line, e.Route) }},
	{name: "cluster", write: func(line []byte, e *entry) []byte { return appendText(line, e.Cluster) }},
	{name: "destination", write: func(line []byte, e *entry) []byte { return appendText(line, e.Destination) }},
	{name: "attempts", write: func(line []byte, e *entry) []byte { return strconv.AppendInt(line, int64(e.Attempts), 10) }},
	{name: "bytesIn", write: func(line []byte, e *entry) []byte { return strconv.AppendInt(line, e.BytesIn, 10) }},
	{name: "bytesOut", write: func(line []byte, e *entry) []byte { return strconv.AppendInt(line, e.BytesOut, 10) }},
	{name: "durationMs", write: func(line []byte, e *entry) []byte { return appendMillis(line, e.now.Sub(e.Started)) }},
	{name: "upstreamMs", write: func(line []byte, e *entry) []byte { return appendMillis(line, e.Upstream) }},
	{name: "correlationId", write: func(line []byte, e *entry) []byte { return appendText(line, e.CorrelationID) }},
	{name: "parameters", asked: true, write: func(line []byte, e *entry) []byte { return appendText(line, e.parameters()) }},
	{name: "userAgent", asked: true, write: func(line []byte, e *entry) []byte { return appendText(line, e.Request.Fields.Get("User-Agent")) }},
	{name: "referer", asked: true, write: func(line []byte, e *entry) []byte {
		page, _, _ := bytes.Cut(e.Request.Fields.Get("Referer"), []byte("?"))
		return appendText(line, page)
	}},
}

// clientGone is the status of a request whose client did not wait for the
// answer, as nginx has it.
const clientGone = 499

func (e *entry) status() int {
	if e.Response.Status == 0 {
		return clientGone
	}
	return e.Response.Status
}

// reason is why the request did not end as it should: a problem's code, or how
// the response broke off. Empty when all went well.
func (e *entry) reason() string {
	switch {
	case e.Reason != "" || e.err == nil:
		return e.Reason
	case e.Context().Err() != nil:
		return "client_gone"
	default:
		return "response_broken"
	}
}

// path is what the client asked for.
func (e *entry) path() []byte {
	path, _, _ := bytes.Cut(e.Asked, []byte("?"))
	return path
}

// parameters are the names of the query, as sent, without their values.
func (e *entry) parameters() string {
	_, query, _ := bytes.Cut(e.Asked, []byte("?"))
	var names []string
	for parameter := range bytes.SplitSeq(query, []byte("&")) {
		if name, _, _ := bytes.Cut(parameter, []byte("=")); len(name) > 0 {
			names = append(names, string(name))
		}
	}
	return strings.Join(names, ",")
}

// appendLine appends all that follows the time.
func (p *Policy) appendLine(line []byte, e *entry) []byte {
	line = append(line, `","level":"INFO","msg":"request"`...)
	for i := range p.fields {
		line = append(line, ',', '"')
		line = append(line, p.fields[i].name...)
		line = append(line, '"', ':')
		line = p.fields[i].write(line, e)
	}
	return append(line, '}', '\n')
}

func appendText[T string | []byte](line []byte, text T) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(strings.ToValidUTF8(string(text), "\ufffd")) // a string always marshals
			return append(line, quoted...)
		}
	}
	line = append(line, '"')
	line = append(line, text...)
	return append(line, '"')
}

func appendAddr(line []byte, addr netip.Addr) []byte {
	if !addr.IsValid() {
		return append(line, `""`...)
	}
	line = append(line, '"')
	line = addr.AppendTo(line)
	return append(line, '"')
}

// appendMillis appends a duration in milliseconds, to the microsecond.
func appendMillis(line []byte, d time.Duration) []byte {
	micros := max(0, d.Microseconds())
	line = strconv.AppendInt(line, micros/1000, 10)
	line = append(line, '.')
	rest := micros % 1000
	return append(line, byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}
