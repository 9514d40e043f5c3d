package consensus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"grapevine/kv"
)

// The paths of calls between nodes. Bodies are as wire.go says; every answer that
// the leader gave, refusals too, has status 200.
const (
	pathPropose = "/peer/v1/propose"
	pathTrial   = "/peer/v1/trial"
	pathRead    = "/peer/v1/read"

	contentType = "application/octet-stream"
)

// Handler answers the calls of other nodes: POST /peer/v1/propose, /peer/v1/trial and
// /peer/v1/read. It does not ask who they are: that is for the connection to know.
// codec carries the refusals of Check and Admit; nil: their text.
func (r *Raft) Handler(codec ErrorCodec) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathPropose, serve(true, codec, func(ctx context.Context, c call) ([]byte, error) {
		if c.term == 0 { // a caller that knows no term is told it first, see Leader
			return nil, r.notLeader()
		}
		if err := r.o.Permit(ctx, c.txn); err != nil {
			return nil, err
		}
		result, err := r.proposeHere(ctx, c.term, c.txn)
		return encodeResult(result), err
	}))
	mux.HandleFunc("POST "+pathTrial, serve(true, codec, func(ctx context.Context, c call) ([]byte, error) {
		if err := r.o.Permit(ctx, c.txn); err != nil {
			return nil, err
		}
		result, err := r.trialHere(ctx, c.term, c.txn)
		return encodeResult(result), err
	}))
	mux.HandleFunc("POST "+pathRead, serve(false, codec, func(ctx context.Context, c call) ([]byte, error) {
		rev, err := r.readHere(ctx, c.term)
		return encodeRev(rev), err
	}))
	return mux
}

func serve(withTxn bool, codec ErrorCodec, do func(context.Context, call) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallBytes))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		c, err := decodeCall(body, withTxn)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience(c.patience))
		defer cancel()
		answer, err := do(ctx, c)
		if err != nil {
			answer = encodeError(err, codec)
		}
		w.Header().Set("Content-Type", contentType)
		w.Write(answer) // who is gone does not hear it
	}
}

// patience is how long a call may take: what its caller said, within bounds.
func patience(said time.Duration) time.Duration {
	if said <= 0 {
		return maxPatience
	}
	return said
}

// Client is a Remote over HTTP/1.1 on connections that are secured already.
type Client struct {
	http   *http.Client
	errors ErrorCodec
}

// NewClient returns a Client that dials for each node it calls. codec reverses
// what that of Handler does; nil leaves refusals as *RefusedError.
func NewClient(dial Dial, codec ErrorCodec) *Client {
	return &Client{errors: codec, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, address)
		},
		IdleConnTimeout:     90 * time.Second, // net/http's own default
		MaxIdleConnsPerHost: mostAtOnce,       // as many as share a batch
	}}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) Propose(ctx context.Context, to Leader, t kv.Txn) (kv.Result, error) {
	a, err := c.call(ctx, to, pathPropose, call{txn: t}, true)
	return a.result, err
}

func (c *Client) Trial(ctx context.Context, to Leader, t kv.Txn) (kv.Result, error) {
	a, err := c.call(ctx, to, pathTrial, call{txn: t}, true)
	return a.result, err
}

func (c *Client) Read(ctx context.Context, to Leader) (kv.Rev, error) {
	a, err := c.call(ctx, to, pathRead, call{}, false)
	return a.rev, err
}

func (c *Client) call(ctx context.Context, to Leader, path string, ask call, withTxn bool) (answer, error) {
	ask.term = to.Term
	if deadline, ok := ctx.Deadline(); ok {
		ask.patience = max(time.Until(deadline), time.Millisecond)
	}
	body, sent, err := c.post(ctx, "http://"+to.Address+path, ask.encode(withTxn))
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return answer{}, refused
	case err != nil && !sent:
		return answer{}, &UnreachableError{Address: to.Address, Err: err}
	case err != nil:
		return answer{}, &UnknownError{ID: ask.txn.ID, Err: fmt.Errorf("leader %s: %w", to.Address, err)}
	}
	a, err := decodeAnswer(body, c.errors)
	if err != nil {
		return answer{}, &UnknownError{ID: ask.txn.ID, Err: fmt.Errorf("leader %s: %w", to.Address, err)}
	}
	return a, a.err
}

// post sends a call and reads the answer. sent says that the other may have it.
func (c *Client) post(ctx context.Context, url string, body []byte) (got []byte, sent bool, err error) {
	var connected atomic.Bool // what is traced may come after Do gave up
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("Content-Type", contentType)
	// An empty key lets net/http send it again when a connection that was idle turns
	// out to be closed, and is not sent itself: a request has its own id.
	request.Header["Idempotency-Key"] = nil
	response, err := c.http.Do(request)
	if err != nil {
		return nil, connected.Load(), err
	}
	defer response.Body.Close()
	got, err = io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err == nil && len(got) > maxAnswerBytes {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswerBytes)
	}
	if err == nil {
		err = statusError(response, got)
	}
	return got, true, err
}

// statusError tells a call that the other could not read, and did nothing for,
// from an answer that never came.
func statusError(response *http.Response, body []byte) error {
	text := fmt.Sprintf("%s: %s", response.Status, bytes.TrimSpace(body[:min(len(body), 200)]))
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return &RefusedError{Message: text}
	}
	return errors.New(text)
}
