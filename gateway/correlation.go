package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"unsafe"

	"grapevine/gateway/exchange"
)

// CorrelationHeader carries the one id of a request, to the backend and back to
// the client.
const CorrelationHeader = "X-Correlation-ID"

// maxCorrelation bounds an id that a client sends; a longer one is replaced.
const maxCorrelation = 128

// correlate ensures that the request has one id: the client's when it is well
// formed, else the trace's, else a new one.
func correlate(x *exchange.Exchange) {
	id := correlationID(x)
	x.CorrelationID = unsafe.String(unsafe.SliceData(id), len(id)) // which is as valid as any slice of the exchange
	x.Request.Fields.DelFunc(ownField)                             // in every spelling, so that a backend finds one
	x.Request.Fields.Add(CorrelationHeader, id)
}

// echoCorrelation has the response say the id, in place of what the backend may
// have said.
func echoCorrelation(x *exchange.Exchange) {
	if x.Response.Status != 0 {
		id := unsafe.Slice(unsafe.StringData(x.CorrelationID), len(x.CorrelationID)) // nobody changes it
		x.Response.Fields.Set(CorrelationHeader, id)
	}
}

// ownField tells whether a field is the gateway's to set, whoever sends it.
func ownField(name []byte) bool {
	return exchange.SameField(name, CorrelationHeader) || exchange.SameField(name, AttemptHeader)
}

func correlationID(x *exchange.Exchange) []byte {
	if sent := x.Request.Fields.Get(CorrelationHeader); validCorrelation(sent) {
		return x.Keep(append(x.Scratch(), sent...))
	}
	if trace := traceID(x.Request.Fields.Get("Traceparent")); trace != nil {
		return x.Keep(append(x.Scratch(), trace...))
	}
	// An id has to differ from all others, not to be a secret.
	id := binary.BigEndian.AppendUint64(make([]byte, 0, 16), rand.Uint64())
	id = binary.BigEndian.AppendUint64(id, rand.Uint64())
	return x.Keep(hex.AppendEncode(x.Scratch(), id))
}

// validCorrelation allows 1 to 128 of [A-Za-z0-9._:/-], which are safe in logs,
// headers and shells.
func validCorrelation(id []byte) bool {
	if len(id) == 0 || len(id) > maxCorrelation {
		return false
	}
	for _, c := range id {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && !('-' <= c && c <= ':') && c != '_' {
			return false
		}
	}
	return true
}

// traceID is the trace-id of a traceparent (W3C Trace Context §3.2.2): 32
// lower-case hex digits, not all of them zero.
func traceID(parent []byte) []byte {
	if len(parent) == 0 {
		return nil
	}
	parts := bytes.Split(parent, []byte("-"))
	if len(parts) < 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || string(parts[0]) == "ff" {
		return nil
	}
	for _, c := range parts[1] {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return nil
		}
	}
	if len(bytes.Trim(parts[1], "0")) == 0 {
		return nil
	}
	return parts[1]
}
