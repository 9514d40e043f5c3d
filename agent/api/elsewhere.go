package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// elsewhere is where the request is answered if it names another node, else nil.
func (a *API) elsewhere(c *call) (http.Handler, error) {
	node, given := c.query["node"]
	if !given {
		return nil, nil
	}
	m, err := FindMember(a.Cluster.Members(), node)
	switch {
	case err != nil:
		return nil, err
	case m.Self:
		return nil, nil
	case c.door == Peers:
		return nil, fail(codeLoop, "node %q: %s was asked by another node, and passes nothing on", node, a.Node().Name)
	}
	return a.Cluster.Ask(m.ID)
}

// pass lets another node answer. What the door of this one asks of a request has been asked; the other trusts this one
// for that, and for who the author is.
func (a *API) pass(c *call, op operation, other http.Handler) error {
	ctx := c.r.Context()
	if op.endless {
		closing, cancel := a.untilClosed(ctx)
		defer cancel(nil)
		ctx = closing
	}
	r := c.r.Clone(ctx)
	query := r.URL.Query()
	query.Del("node")
	r.URL.RawQuery = query.Encode()
	r.Header.Set(AuthorHeader, c.author())
	if op.body != nil {
		// Whole, so that no slow client holds the other node, and none sends more than may be sent.
		data, err := c.read(op.body.limit)
		if err != nil {
			return err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		r.TransferEncoding = nil
	}
	// The other node sets them, and its log is the one that has the id.
	c.w.Header().Del(correlationHeader)
	c.w.Header().Del(sniffHeader)
	other.ServeHTTP(c.w, r)
	return nil
}

// isNotFound says that FindMember knew no such node.
func isNotFound(err error) bool {
	var missing *NotFoundError
	return errors.As(err, &missing)
}
