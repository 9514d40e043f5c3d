package exchange

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// problemType is the media type of RFC 9457.
const problemType = "application/problem+json"

// Problem is an answer that the gateway gives itself (RFC 9457). Code is a
// stable word in snake case; Detail is a sentence for a person and names no
// internal address.
type Problem struct {
	Status int
	Code   string
	Detail string
	// Fields are added to the response, as Allow or Retry-After.
	Fields Fields
}

// Fail answers with p, as Respond does, and remembers its code as the reason.
func (x *Exchange) Fail(p Problem) {
	x.Reason = p.Code
	x.Respond(p.Status, problemType, p.document(x.CorrelationID))
	x.Response.Fields = append(x.Response.Fields, p.Fields...)
}

// Respond answers with a body held in memory. What the response held before is
// dropped.
func (x *Exchange) Respond(status int, contentType string, body []byte) {
	x.DropResponse()
	r := &x.Response
	r.Status = status
	r.Fields.Add("Content-Type", []byte(contentType))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

func (p Problem) document(correlationID string) []byte {
	doc, err := json.Marshal(struct {
		Type          string `json:"type"`
		Title         string `json:"title"`
		Status        int    `json:"status"`
		Detail        string `json:"detail,omitempty"`
		CorrelationID string `json:"correlationId,omitempty"`
	}{
		"urn:grapevine:" + strings.ReplaceAll(p.Code, "_", "-"), p.Code,
		p.Status, p.Detail, correlationID,
	})
	if err != nil { // strings and an int always marshal
		panic(err)
	}
	return append(doc, '\n')
}
