package api

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"grapevine/kv"
)

// view is the present, or the past that ?at= names.
func (a *API) view(c *call) (kv.View, error) {
	if err := a.fresh(c); err != nil {
		return kv.View{}, err
	}
	now := a.Store.View()
	if c.query["at"] == "" {
		return now, nil
	}
	rev, err := kv.ParseRev(c.query["at"], now.Rev().Epoch)
	if err != nil {
		return now, fail(codeBadRequest, "at: %v", err)
	}
	return a.Store.At(rev)
}

// get answers with one value.
func (a *API) get(c *call) error {
	key, err := readable(c.rest)
	if err != nil {
		return err
	}
	view, err := a.view(c)
	if err != nil {
		return err
	}
	entry, ok := view.Get(key)
	if !ok {
		return missing(key, view)
	}
	c.w.Header().Set("ETag", etag(entry.ModRev))
	if c.query.on("detail") {
		a.answer(c, http.StatusOK, envelope(entry))
		return nil
	}
	return bare(c, entry.Value)
}

func missing(key kv.Key, view kv.View) error {
	return fail(codeNotFound, "key %q: not found at revision %s", key, view.Rev()).about(string(key))
}

// bare answers with the bytes of a value. What is not JSON gets a type that no browser renders.
func bare(c *call, value []byte) error {
	media := typeBytes
	if json.Valid(value) {
		media = typeJSON
	}
	c.w.Header().Set("Content-Type", media)
	_, err := c.w.Write(value)
	return err
}

// list answers with the entries under a prefix, one by one: they may be many.
func (a *API) list(c *call) error {
	prefix := c.query["prefix"]
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	view, err := a.view(c)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", typeJSON)
	out := bufio.NewWriter(c.w)
	if err := writeListing(out, view, prefix, c.query.on("keys")); err != nil {
		return err
	}
	return out.Flush()
}

// checkPrefix tells of a prefix that no key can have. The empty one is every key.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	_, err := kv.ParseKey(strings.TrimSuffix(prefix, "/"))
	return err
}

// writeListing writes a Listing.
func writeListing(w io.Writer, view kv.View, prefix string, keysOnly bool) error {
	field := "entries"
	if keysOnly {
		field = "keys"
	}
	if _, err := io.WriteString(w, `{"rev":"`+view.Rev().String()+`","`+field+`":[`); err != nil {
		return err
	}
	first := true
	for entry := range view.Under(prefix) {
		if !first {
			if _, err := io.WriteString(w, ","); err != nil {
				return err
			}
		}
		first = false
		if err := encode(w, element(entry, keysOnly)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "]}\n")
	return err
}

func element(entry kv.Entry, keyOnly bool) any {
	if keyOnly {
		return entry.Key
	}
	return envelope(entry)
}
