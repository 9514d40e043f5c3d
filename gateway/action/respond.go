package action

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// Respond answers with fixed content, which all answers share.
type Respond struct {
	status int
	body   []byte
	fields exchange.Fields
	// etag is of the body, and nil unless the status is 200. Then tagged are the
	// fields with it, and notModified those of an answer that says no more.
	etag                []byte
	tagged, notModified exchange.Fields
}

var _ exchange.Handler = (*Respond)(nil)

// NewRespond reads fixed content.
func NewRespond(s *spec.Respond) *Respond {
	r := &Respond{status: cmp.Or(s.Status, http.StatusOK), body: shared(s.Body), fields: fieldsOf(s.Headers)}
	r.notModified = slices.Clone(r.fields)
	r.notModified.DelFunc(describesContent)
	if hasContent(r.status) {
		r.fields.Add("Content-Type", shared(string(cmp.Or(s.ContentType, "text/plain; charset=utf-8"))))
	}
	if r.status == http.StatusOK {
		sum := sha256.Sum256(r.body)
		r.etag = shared(`"` + hex.EncodeToString(sum[:16]) + `"`)
		r.tagged = slices.Clone(r.fields)
		r.tagged.Add("ETag", r.etag)
		r.notModified.Add("ETag", r.etag)
	}
	return r
}

// describesContent are fields that a 304 should leave out, because the client
// has what they describe (RFC 9110 §15.4.5).
func describesContent(name []byte) bool {
	return slices.Contains([]string{"content-encoding", "content-language", "content-range", "last-modified"}, strings.ToLower(string(name)))
}

// hasContent is RFC 9110 §6.4.1; 205 says that there is none (§15.3.6).
func hasContent(status int) bool {
	return status != http.StatusNoContent && status != http.StatusResetContent && status != http.StatusNotModified
}

// Serve answers.
func (r *Respond) Serve(x *exchange.Exchange) {
	status, fields := r.status, r.fields
	if r.etag != nil && (x.Request.Method == http.MethodGet || x.Request.Method == http.MethodHead) {
		fields = r.tagged
		if matchesNone(x.Request.Fields, r.etag) {
			status, fields = http.StatusNotModified, r.notModified
		}
	}
	x.Respond(status, "", r.body)
	x.Response.Fields = append(x.Response.Fields[:0], fields...)
	if r.status == http.StatusNotModified {
		x.Response.ContentLength = -1 // nobody knows what a GET would have had
	}
	if !hasContent(status) || x.Request.Method == http.MethodHead {
		x.Response.Body = nil
	}
}
