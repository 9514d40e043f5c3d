package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// put writes one value.
func (a *API) put(c *call) error {
	key, err := writable(c.rest)
	if err != nil {
		return err
	}
	if media, _ := mediaType(c.r); media == typeBytes && !free(c.rest) && c.door == TCP {
		return fail(codeContentType, "Content-Type %q: is for free keys only; %s takes %s, %s or %s",
			typeBytes, key, typeJSON, typeYAML, typeShorthand).about(string(key))
	}
	data, err := c.read(maxValueBody)
	if err != nil {
		return err
	}
	value, err := decode(c.rest, data, c.form())
	if err != nil {
		return err
	}
	compares, err := conditions(c.r.Header, key, a.epoch())
	if err != nil {
		return err
	}
	return a.putValue(c, key, value, compares)
}

// decode reads a body. A free key takes what it is sent, as long as that is what it says it is.
func decode(key string, data []byte, form spec.Form) (spec.Decoded, error) {
	if free(key) && form == spec.FormJSON && !json.Valid(data) {
		return spec.Decoded{}, spec.Fault{Key: key, Problem: "is not JSON, as its content type says"}
	}
	return spec.Decode(key, data, form)
}

// putValue writes a decoded value, under conditions, and answers.
func (a *API) putValue(c *call, key kv.Key, value spec.Decoded, compares []kv.Compare) error {
	w, err := a.write(c, kv.Txn{Compare: compares, Then: []kv.Op{kv.Put(key, value.JSON)}})
	if err != nil {
		return err
	}
	if !w.result.Succeeded {
		return conflict(a.Store.View(), key)
	}
	shown, encoding := wireValue(value.JSON)
	c.w.Header().Set("ETag", etag(w.result.Rev))
	a.answer(c, w.status(), Written{
		Key: string(key), Rev: w.result.Rev.String(), Value: shown, Encoding: encoding,
		Applied: w.applied, DryRun: w.dryRun, Notices: join(value.Notices, w.quarantined),
	})
	return nil
}

// del deletes a key, or with ?recurse=1 a prefix.
func (a *API) del(c *call) error {
	op, compares, err := a.deletion(c)
	if err != nil {
		return err
	}
	w, err := a.write(c, kv.Txn{Compare: compares, Then: []kv.Op{op}})
	if err != nil {
		return err
	}
	switch {
	case !w.result.Succeeded:
		return conflict(a.Store.View(), op.Key)
	case w.result.Deleted == 0:
		return missing(kv.Key(string(op.Key)+op.Prefix), a.Store.View())
	}
	a.answer(c, w.status(), Deleted{
		Key: string(op.Key) + op.Prefix, Rev: w.result.Rev.String(), Deleted: w.result.Deleted,
		Applied: w.applied, DryRun: w.dryRun, Notices: join(w.quarantined),
	})
	return nil
}

func (a *API) deletion(c *call) (kv.Op, []kv.Compare, error) {
	if c.query.on("recurse") {
		if c.r.Header.Get("If-Match")+c.r.Header.Get("If-None-Match") != "" {
			return kv.Op{}, nil, fail(codeBadRequest, "recurse: a condition is about one key; POST /v1/txn takes compares beside a deleteRange")
		}
		if c.rest == "" {
			return kv.Op{}, nil, fail(codeBadKey, "recurse: an empty prefix would delete every key")
		}
		return kv.DeleteRange(c.rest), nil, deletable(c.rest)
	}
	key, err := writable(c.rest)
	if err != nil {
		return kv.Op{}, nil, err
	}
	compares, err := conditions(c.r.Header, key, a.epoch())
	return kv.Delete(key), compares, err
}

func (a *API) epoch() uint32 { return a.Store.View().Rev().Epoch }

// written is what became of a write.
type written struct {
	result  kv.Result
	dryRun  bool
	waited  bool
	reached bool // as many nodes as were waited for serve it
	applied Applied
	// quarantined are the faults of the live table that are about what was written.
	quarantined []spec.Fault
}

// status is 202 where the receipt that was asked for did not come in time: it is written, and not yet served.
func (w written) status() int {
	if w.waited && !w.reached {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// write proposes a transaction, or tries it for a dry run, and waits for the receipt.
func (a *API) write(c *call, t kv.Txn) (written, error) {
	t.ID, t.At = c.id, time.Now()
	t.By, t.Message = c.author(), c.query["message"]
	w := written{dryRun: c.query.on("dryRun"), applied: a.unapplied()}
	share, err := c.share()
	if err != nil {
		return w, err
	}
	if err := checkMessage(t.Message); err != nil {
		return w, err
	}
	if w.result, err = a.propose(c, t, w.dryRun); err != nil {
		return w, err
	}
	w.waited = !w.dryRun && share != Nobody && len(w.result.Changed) > 0
	if w.waited {
		a.await(c, &w, share)
	}
	return w, nil
}

// share reads which nodes the client wants to wait for.
func (c *call) share() (Share, error) {
	word, given := c.query["wait"]
	if !given {
		return Local, nil
	}
	share, err := ParseShare(word)
	if err != nil {
		return share, fail(codeBadRequest, "wait %v", err)
	}
	return share, nil
}

// propose makes the write, or for a dry run tries it.
func (a *API) propose(c *call, t kv.Txn, dryRun bool) (kv.Result, error) {
	bound := cmp.Or(c.timeout, a.Bound)
	ctx, cancel := context.WithTimeout(c.r.Context(), bound)
	defer cancel()
	write := a.Log.Propose
	if dryRun {
		write = a.Log.Trial
	}
	result, err := write(ctx, t)
	if failureOf(err) == nil && errors.Is(err, context.DeadlineExceeded) {
		// By its contract the log has not tried it.
		err = fail(codeTimeout, "the write had no turn within %s", bound)
	}
	return result, err
}

// checkMessage keeps the history readable: a message is one line for people.
func checkMessage(message string) error {
	const most = 1024 // bytes
	switch {
	case len(message) > most:
		return fail(codeBadRequest, "message: has %d bytes, at most %d are kept", len(message), most)
	case !utf8.ValidString(message) || strings.ContainsFunc(message, unicode.IsControl):
		return fail(codeBadRequest, "message %q: must be one line of text", message)
	}
	return nil
}

// await fills in the receipt. A key that the table quarantined counts as applied, since nothing further will happen
// to it; the receipt says so.
func (a *API) await(c *call, w *written, share Share) {
	ctx, cancel := context.WithTimeout(c.r.Context(), cmp.Or(c.timeout, a.WaitBound))
	defer cancel()
	w.applied, w.reached = a.receipt(ctx, w.result.Rev, share)
	if a.Gateway == nil || a.Gateway.Table().Rev().Compare(w.result.Rev) < 0 {
		return
	}
	for _, fault := range a.Gateway.Table().Faults() {
		if slices.Contains(w.result.Changed, kv.Key(fault.Key)) {
			w.quarantined = append(w.quarantined, fault)
		}
	}
}

// receipt waits until the share serves rev.
func (a *API) receipt(ctx context.Context, rev kv.Rev, share Share) (Applied, bool) {
	if share == Local {
		began := time.Now()
		reached := a.waitHere(ctx, rev) == nil
		applied := a.unapplied()
		applied.Ms = time.Since(began).Milliseconds()
		if reached {
			applied.Nodes = 1
		}
		return applied, reached
	}
	r := a.Cluster.Await(ctx, rev, share)
	return Applied{
		Nodes: r.Nodes, Of: r.Of, Ms: r.Took.Milliseconds(), Slowest: r.Slowest, Missing: r.Missing, NoGateway: a.Gateway == nil,
	}, r.Nodes >= share.Of(r.Of)
}

// unapplied is the receipt for which nobody has waited yet.
func (a *API) unapplied() Applied { return Applied{Of: a.live(), NoGateway: a.Gateway == nil} }

// waitHere waits until this node serves rev; one without a gateway only holds it.
func (a *API) waitHere(ctx context.Context, rev kv.Rev) error {
	if a.Gateway != nil {
		return a.Gateway.Wait(ctx, rev)
	}
	for {
		changed := a.Store.Changed()
		if a.Store.View().Rev().Compare(rev) >= 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// join joins faults into a list that is [] and not null when it is empty.
func join(parts ...[]spec.Fault) []spec.Fault {
	return append([]spec.Fault{}, slices.Concat(parts...)...)
}

// keyNames are keys as a document holds them.
func keyNames(keys []kv.Key) []string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = strings.Clone(string(key))
	}
	return names
}
