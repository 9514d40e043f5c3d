package api

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"grapevine/kv"
)

var (
	errStopping  = errors.New("the agent is stopping")
	errHeartbeat = errors.New("nothing changed for a while")
)

// Change is the data of a put event, and of a delete event without its value.
type Change struct {
	Key      string          `json:"key" doc:"the key"`
	Value    json.RawMessage `json:"value,omitempty" doc:"the value; none for a delete"`
	Encoding Encoding        `json:"encoding,omitempty" doc:"how a value that is not JSON is held: text, or base64"`
	ModRev   string          `json:"modRev" doc:"the revision of the change"`
	By       string          `json:"by,omitempty" doc:"who made it"`
	At       time.Time       `json:"at,omitzero" doc:"when, by the writer's clock; none for an ephemeral key"`
	Owner    *Owner          `json:"owner,omitempty" doc:"whose an ephemeral key is; such keys have no history: a watch gets each as it is by then"`
}

// State is the data of a state event: the puts that follow it, until sync, are all that there is under the prefix, of one
// moment, and what comes after sync are the changes since.
type State struct {
	Rev     string `json:"rev" doc:"the revision of that moment"`
	EpochID string `json:"epochId" doc:"the id of its epoch, in hex: another one is another history"`
}

// Sync is the data of a sync event: all up to this revision has been sent.
type Sync struct {
	Rev string `json:"rev" doc:"the revision"`
}

// Reset is the data of a reset event: the stream can't go on from where it was. Read the prefix anew.
type Reset struct {
	Oldest string `json:"oldest" doc:"the oldest revision that a watch can begin after"`
}

// End is the data of the last event of a stream that the agent ends.
type End struct {
	Reason string `json:"reason" doc:"why it ends"`
}

// watch streams the changes of a prefix as server-sent events.
func (a *API) watch(c *call) error {
	prefix := c.query["prefix"]
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	since, err := a.since(c)
	if err != nil {
		return err
	}
	whole := c.query.on("state")
	if why := a.waits(); whole && why != "" {
		return fail(codeNotReady, "state: this node may not know the present one: %s", why)
	}
	if c.r.Method == http.MethodHead {
		c.w.Header().Set("Content-Type", "text/event-stream")
		return nil
	}
	ctx, cancel := a.untilClosed(c.r.Context())
	defer cancel(nil)
	s := stream{api: a, w: c.w, prefix: prefix}
	if whole {
		err = s.beginWhole()
	} else {
		err = s.begin(since)
	}
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// waits says why the node may not have heard what its cluster serves.
func (a *API) waits() string {
	if a.Waiting == nil {
		return ""
	}
	return a.Waiting()
}

// untilClosed ends with ctx, or with errStopping when the API is closed.
func (a *API) untilClosed(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-a.closing:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// since is where the client left off: a browser that reconnects says so in a header, and then its URL is out of date.
func (a *API) since(c *call) (kv.Rev, error) {
	text := c.r.Header.Get("Last-Event-ID")
	if text == "" {
		text = c.query["since"]
	}
	if text == "" {
		return kv.Rev{}, nil
	}
	since, err := kv.ParseRev(text, a.epoch())
	switch {
	case err != nil:
		return since, fail(codeBadRequest, "since: %v", err)
	case since.IsZero():
		// The store takes the zero revision for "from now on"; a client that
		// gives it means a history that is not this one, and has to begin anew.
		return kv.Rev{Epoch: math.MaxUint32}, nil
	}
	return since, nil
}

// pieceBytes is about how much of a state is sent at once.
const pieceBytes = 64 << 10

// stream is one watch on its way to a client.
type stream struct {
	api     *API
	w       *recorder
	prefix  string
	watcher *kv.Watcher
	// replayed is the last revision of what was there already when the stream began; synced says that it is sent.
	replayed kv.Rev
	synced   bool
	sent     kv.Rev // the last id that the client has
	buffer   bytes.Buffer
}

// connect begins the answer, so that a client knows at once that it is connected.
func (s *stream) connect() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	s.comment("connected")
}

// begin opens the watch.
func (s *stream) begin(since kv.Rev) error {
	s.connect()
	watcher, err := s.api.Store.Watch(s.prefix, since)
	if err != nil {
		return s.fail(err)
	}
	s.watcher, s.replayed = watcher, since
	if since.IsZero() {
		s.replayed = watcher.Rev()
	}
	past, err := s.api.Store.History(s.prefix, watcher.Rev(), 0)
	if err != nil {
		return s.fail(err)
	}
	if len(past) > 0 {
		s.replayed = past[len(past)-1].Rev
	}
	return s.sync()
}

// beginWhole opens the watch at the present, and sends all that is there, in pieces: it may be much.
func (s *stream) beginWhole() error {
	s.connect()
	view, watcher := s.api.Store.Follow(s.prefix)
	s.watcher, s.replayed = watcher, view.Rev()
	epochID := view.Head().EpochID
	s.event("state", "", State{Rev: view.Rev().String(), EpochID: hex.EncodeToString(epochID[:])})
	for entry := range view.Under(s.prefix) {
		s.put("", entry)
		if s.buffer.Len() >= pieceBytes {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.sync()
}

// run sends until the client or the agent goes.
func (s *stream) run(ctx context.Context) error {
	for s.watcher != nil {
		batch, err := s.next(ctx)
		switch {
		case err == nil:
			err = s.send(batch)
		case errors.Is(err, errHeartbeat):
			err = s.progress()
		case errors.Is(err, errStopping), ctx.Err() == nil:
			return s.fail(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// next waits for a batch, or until it is time for a heartbeat.
func (s *stream) next(ctx context.Context) (kv.Batch, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.api.Heartbeat, errHeartbeat)
	defer cancel()
	batch, err := s.watcher.Next(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return batch, err
}

// send writes what one revision changed. Only its last event has the id: a client that loses the connection between
// two of them asks for the revision again, and never resumes in its middle.
func (s *stream) send(batch kv.Batch) error {
	for i, e := range batch.Events {
		id := ""
		if i == len(batch.Events)-1 {
			id = batch.Rev.String()
		}
		if e.Type == kv.EventDelete {
			s.event("delete", id, Change{
				Key: string(e.Entry.Key), ModRev: e.Entry.ModRev.String(), By: e.Entry.By, At: e.Entry.At, Owner: ownerOf(e.Entry),
			})
			continue
		}
		s.put(id, e.Entry)
	}
	s.sent = batch.Rev
	return s.sync()
}

func (s *stream) put(id string, entry kv.Entry) {
	value, encoding := wireValue(entry.Value)
	s.event("put", id, Change{
		Key: string(entry.Key), Value: value, Encoding: encoding,
		ModRev: entry.ModRev.String(), By: entry.By, At: entry.At, Owner: ownerOf(entry),
	})
}

// sync tells, once, that what the client had missed is sent. It also sends what is buffered.
func (s *stream) sync() error {
	if !s.synced && s.watcher.Rev().Compare(s.replayed) >= 0 {
		s.synced = true
		s.mark(s.watcher.Rev())
	}
	return s.flush()
}

// progress shows that the stream lives. Where other keys have changed meanwhile the client gets a newer place to
// resume from, else its own would be compacted away.
func (s *stream) progress() error {
	if s.watcher.Rev() == s.sent {
		s.comment("alive")
	} else {
		s.mark(s.watcher.Rev())
	}
	return s.flush()
}

func (s *stream) mark(rev kv.Rev) {
	s.sent = rev
	s.event("sync", rev.String(), Sync{Rev: rev.String()})
}

// fail ends the stream, telling why.
func (s *stream) fail(err error) error {
	s.watcher = nil
	var compacted *kv.CompactedError
	switch {
	case errors.As(err, &compacted):
		s.event("reset", "", Reset{Oldest: compacted.Oldest.String()})
	case errors.Is(err, errStopping), errors.Is(err, kv.ErrClosed):
		s.event("end", "", End{Reason: errStopping.Error()})
	default:
		return err
	}
	return s.flush()
}

func (s *stream) comment(text string) { fmt.Fprintf(&s.buffer, ": %s\n\n", text) }

// event adds an event. The encoder ends a document with a newline and has none within, as the format demands.
func (s *stream) event(name, id string, data any) {
	if id != "" {
		fmt.Fprintf(&s.buffer, "id: %s\n", id)
	}
	fmt.Fprintf(&s.buffer, "event: %s\ndata: ", name)
	if err := encode(&s.buffer, data); err != nil { // a buffer takes all, and the documents always marshal
		panic(err)
	}
	s.buffer.WriteByte('\n')
}

func (s *stream) flush() error {
	if _, err := s.buffer.WriteTo(s.w); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}
