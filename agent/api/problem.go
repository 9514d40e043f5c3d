package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// code is what is wrong, as a word that stays the same for programs.
type code string

const (
	codeBadRequest      code = "bad_request"
	codeBadKey          code = "bad_key"
	codeForbiddenHost   code = "forbidden_host"
	codeForbiddenOrigin code = "forbidden_origin"
	codeNotFound        code = "not_found"
	codeMethod          code = "method_not_allowed"
	codeGone            code = "compacted"
	codeConflict        code = "conflict"
	codeTooLarge        code = "too_large"
	codeContentType     code = "unsupported_content_type"
	codeInvalid         code = "invalid"
	codeInternal        code = "internal"
	codeReadOnly        code = "read_only"
	codeNotReady        code = "not_ready"
	codeDiskFull        code = "disk_full"
	codeNoQuorum        code = "no_quorum"
	codeUnknownOutcome  code = "unknown_outcome"
	codeTimeout         code = "timeout"
	codeRefused         code = "refused"
	codeUnreachable     code = "node_unreachable"
	codeLoop            code = "loop_detected"
	codeDenied          code = "denied"
	codeTooMany         code = "too_many_instances"
)

// status is the one place where a kind of failure becomes an HTTP status.
func (c code) status() int {
	switch c {
	case codeBadRequest, codeBadKey:
		return http.StatusBadRequest
	case codeForbiddenHost, codeForbiddenOrigin, codeDenied:
		return http.StatusForbidden
	case codeNotFound:
		return http.StatusNotFound
	case codeMethod:
		return http.StatusMethodNotAllowed
	case codeGone:
		return http.StatusGone
	case codeConflict:
		return http.StatusPreconditionFailed
	case codeTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeContentType:
		return http.StatusUnsupportedMediaType
	case codeInvalid:
		return http.StatusUnprocessableEntity
	case codeRefused:
		return http.StatusConflict
	case codeTooMany:
		return http.StatusTooManyRequests
	case codeUnreachable:
		return http.StatusBadGateway
	case codeReadOnly, codeNotReady, codeNoQuorum:
		return http.StatusServiceUnavailable
	case codeUnknownOutcome, codeTimeout:
		return http.StatusGatewayTimeout
	case codeLoop:
		return http.StatusLoopDetected
	case codeDiskFull:
		return http.StatusInsufficientStorage
	default:
		return http.StatusInternalServerError
	}
}

// failure is an error that the API makes itself.
type failure struct {
	code   code
	detail string
	key    string
	rev    string
	faults spec.Faults
	allow  string
}

func (f *failure) Error() string { return f.detail }

func fail(c code, format string, args ...any) *failure {
	return &failure{code: c, detail: fmt.Sprintf(format, args...)}
}

// about names the key that the failure is about.
func (f *failure) about(key string) *failure {
	f.key = key
	return f
}

// failureOf says what kind of failure an error of the packages below is. What it doesn't know is internal: its text is
// for the log, not for the client.
func failureOf(err error) *failure {
	var (
		own       *failure
		key       *kv.KeyError
		fault     spec.Fault
		faults    spec.Faults
		limit     *kv.LimitError
		compacted *kv.CompactedError
		body      *http.MaxBytesError
	)
	if f := clusterFailure(err); f != nil {
		return f
	}
	if f := announceFailure(err); f != nil {
		return f
	}
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &key):
		return fail(codeBadKey, "%v", err).about(string(key.Key))
	case errors.As(err, &faults):
		return invalid(faults)
	case errors.As(err, &fault):
		return invalid(spec.Faults{fault})
	case errors.As(err, &limit):
		return fail(codeTooLarge, "%v", err)
	case errors.As(err, &compacted):
		return &failure{code: codeGone, detail: err.Error(), rev: compacted.Oldest.String()}
	case errors.As(err, &body):
		return fail(codeTooLarge, "the body is larger than the %d bytes that are taken here", body.Limit)
	case errors.Is(err, kv.ErrFuture):
		return fail(codeBadRequest, "%v", err)
	case errors.Is(err, kv.ErrDiskFull):
		return fail(codeDiskFull, "%v", err)
	case errors.Is(err, kv.ErrReadOnly):
		return fail(codeReadOnly, "%v", err)
	default:
		return nil
	}
}

// invalid is the failure of values with faults; it is about a key when all of them are.
func invalid(faults spec.Faults) *failure {
	f := &failure{code: codeInvalid, detail: faults.Error(), faults: faults, key: faults[0].Key}
	for _, fault := range faults {
		if fault.Key != f.key {
			f.key = ""
		}
	}
	return f
}

// refuse answers with err.
func (a *API) refuse(c *call, err error) {
	f := failureOf(err)
	switch {
	case c.w.status != 0: // the answer has begun, and must not look whole
		panic(http.ErrAbortHandler)
	case f != nil:
		if f.allow != "" {
			c.w.Header().Set("Allow", f.allow)
		}
		a.answerProblem(c, f.problem())
	case c.r.Context().Err() != nil && errors.Is(err, context.Canceled):
		panic(http.ErrAbortHandler) // the client left: nobody reads an answer
	default:
		a.Logger.Error("api request failed", "id", c.id, "method", c.r.Method, "path", c.r.URL.Path, "err", err)
		a.answerProblem(c, a.internal(c))
	}
}

func (f *failure) problem() Problem {
	return Problem{
		Type:   "urn:grapevine:" + strings.ReplaceAll(string(f.code), "_", "-"),
		Title:  string(f.code),
		Status: f.code.status(), Detail: f.detail, Code: string(f.code),
		Key: f.key, Faults: f.faults, Rev: f.rev, NothingWritten: f.code != codeUnknownOutcome,
	}
}

// internal is the problem of a fault in the agent: nobody knows how far a write came.
func (a *API) internal(c *call) Problem {
	p := fail(codeInternal, "a fault of the agent; its log says more under the id %s", c.id).problem()
	p.NothingWritten = c.reads()
	return p
}

func (a *API) answerProblem(c *call, p Problem) {
	c.w.Header().Set("Content-Type", "application/problem+json")
	a.answer(c, p.Status, p)
}

// answer writes a document.
func (a *API) answer(c *call, status int, document any) {
	h := c.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	c.w.WriteHeader(status)
	// What fails here is the connection, and then nobody is there to tell.
	_ = encode(c.w, document)
}

// encode keeps <, > and & as they are: a path reads as its author wrote it.
func encode(w interface{ Write([]byte) (int, error) }, document any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(document)
}
