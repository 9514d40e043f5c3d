package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

const (
	// maxValueBody is what a value may have at most.
	maxValueBody = kv.MaxValueBytes
	// maxBatchBody leaves room for the ways to write the 4 MiB that a transaction may have at most.
	maxBatchBody = 16 << 20
	// maxSmallBody is what a request may have that is about the cluster.
	maxSmallBody = 64 << 10
	// bodyTimeout is how long a client may take to send a body.
	bodyTimeout = time.Minute
)

const (
	typeJSON      = "application/json"
	typeYAML      = "application/yaml"
	typeShorthand = "application/x-grapevine-shorthand"
	typeBytes     = "application/octet-stream"
	typePatch     = "application/merge-patch+json"
)

// checkType refuses, on TCP, a body whose type an HTML form can send, or that the operation doesn't take.
func (op operation) checkType(c *call) error {
	if op.body == nil || c.door != TCP {
		return nil
	}
	given := c.r.Header.Get("Content-Type")
	if media, charset := mediaType(c.r); slices.Contains(op.body.types, media) && charset {
		return nil
	}
	return fail(codeContentType, "Content-Type %q: %s takes %s in UTF-8", given, op.method+" "+op.path,
		strings.Join(op.body.types, ", "))
}

// mediaType returns the type of the body, and whether its text, if it is one, is in UTF-8.
func mediaType(r *http.Request) (media string, utf8 bool) {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return "", false
	}
	charset := params["charset"]
	return media, charset == "" || strings.EqualFold(charset, "utf-8")
}

// form is how the body of a value is read. The socket takes any type, so that curl -d works there.
func (c *call) form() spec.Form {
	switch media, _ := mediaType(c.r); media {
	case typeJSON:
		return spec.FormJSON
	case typeYAML:
		return spec.FormYAML
	case typeShorthand:
		return spec.FormShorthand
	default:
		return spec.FormAuto
	}
}

// read returns the body, of at most limit bytes. One that says itself that it is larger is refused unread.
func (c *call) read(limit int64) ([]byte, error) {
	if c.r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	conn := http.NewResponseController(c.w)
	if err := conn.SetReadDeadline(time.Now().Add(bodyTimeout)); err == nil {
		defer conn.SetReadDeadline(time.Time{})
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	var large *http.MaxBytesError
	if err != nil && !errors.As(err, &large) {
		return nil, fail(codeBadRequest, "body: %v", err)
	}
	return data, err
}

// document decodes a JSON body into v, strictly.
func (c *call) document(limit int64, v any) error {
	data, err := c.read(limit)
	if err != nil {
		return err
	}
	return decodeDocument(data, v)
}

// optional is document for a body that may be left out, and is small.
func (c *call) optional(v any) error {
	data, err := c.read(maxSmallBody)
	if err != nil || len(data) == 0 {
		return err
	}
	return decodeDocument(data, v)
}

func decodeDocument(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fail(codeBadRequest, "body: %v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fail(codeBadRequest, "body: more than one JSON document")
	}
	return nil
}
