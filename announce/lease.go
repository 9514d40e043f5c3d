package announce

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"grapevine/announce/reach"
)

const (
	// attempt bounds one try to announce, from the dial to the agent's first line.
	attempt = 5 * time.Second
	// silence is how long an agent may say nothing: three of the lines that it
	// sends every 10 s to show that it lives.
	silence = 30 * time.Second
)

var (
	errNoAnswer = fmt.Errorf("no answer within %v", attempt)
	errSilent   = fmt.Errorf("nothing was heard from the agent for %v", silence)
	errEnded    = errors.New("the agent ended the connection")
)

// lease is one connection to an agent, and lives as long as it.
type lease struct {
	place  reach.Place
	client *http.Client
	token  string    // shown with each request, unless it is empty
	id     string    // the agent's name of it
	since  time.Time // when it was accepted

	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc
	watch  *time.Timer // ends a connection on which nothing is heard
	stream io.Closer
	lines  *bufio.Scanner
}

// open announces, and returns the lease with the agent's first event. Until
// then ctx bounds it; afterwards life does.
func open(ctx, life context.Context, d reach.Dial, p reach.Place, token string, body any) (*lease, event, error) {
	l := &lease{place: p, client: clientOf(d, p), token: token}
	l.ctx, l.cancel = context.WithCancelCause(life)
	l.watch = time.AfterFunc(attempt, func() { l.cancel(errNoAnswer) })
	unbind := context.AfterFunc(ctx, func() { l.cancel(context.Cause(ctx)) })
	defer unbind()
	first, err := l.announce(body)
	if err != nil {
		l.close()
		return nil, event{}, err
	}
	l.watch.Stop()
	l.watch = time.AfterFunc(silence, func() { l.cancel(errSilent) })
	l.id, l.since = first.Lease, time.Now()
	return l, first, nil
}

func (l *lease) announce(body any) (event, error) {
	response, err := l.send(l.ctx, http.MethodPost, "/v1/announce", body)
	if err != nil {
		return event{}, err
	}
	l.stream = response.Body
	l.lines = bufio.NewScanner(response.Body)
	l.lines.Buffer(nil, maxEvent)
	first, err := l.next()
	if err == nil && first.Event != "accepted" {
		err = fmt.Errorf("the agent began with %q, not with accepted", first.Event)
	}
	return first, err
}

// next waits for the agent's next event.
func (l *lease) next() (event, error) {
	if !l.lines.Scan() {
		return event{}, l.cause(l.lines.Err())
	}
	l.watch.Reset(silence)
	return decodeEvent(l.lines.Bytes())
}

// cause is why the connection ended.
func (l *lease) cause(err error) error {
	if cause := context.Cause(l.ctx); cause != nil {
		return cause
	}
	if err == nil {
		return errEnded
	}
	return err
}

// close ends the connection, which withdraws the instance.
func (l *lease) close() {
	l.watch.Stop()
	l.cancel(errEnded)
	if l.stream != nil {
		l.stream.Close()
	}
}

// call asks the agent for something about the lease, and reads the answer into
// out unless that is nil. It ends with the lease.
func (l *lease) call(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	response, err := l.send(ctx, method, "/v1/announce/"+url.PathEscape(l.id)+path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxEvent))
	if err == nil && out != nil {
		err = json.Unmarshal(answer, out)
	}
	if err != nil {
		return fmt.Errorf("%s %s at %s: %w", method, path, l.place, err)
	}
	return nil
}

// send returns an answer that is no refusal. Its body is the caller's to close.
func (l *lease) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, l.place.Base+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if l.token != "" {
		request.Header.Set("Authorization", "Bearer "+l.token)
	}
	response, err := l.client.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("agent at %s: %w", l.place, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, refusal(l.place.String(), response)
	}
	return response, nil
}
