package follow

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"grapevine/kv"
)

// maxEvent bounds an event. The longest holds an operator's value of 256 KiB, each byte
// of which JSON may have made six.
const maxEvent = 2 << 20

var errLongEvent = fmt.Errorf("an event is larger than %d KiB", maxEvent>>10)

// event is one server-sent event. Comments are events without a name.
type event struct {
	name, id string
	data     []byte
}

// events reads a stream of them.
type events struct{ lines *bufio.Scanner }

func newEvents(r io.Reader) *events {
	e := &events{bufio.NewScanner(r)}
	e.lines.Buffer(nil, maxEvent)
	return e
}

// next is the next event that is whole: one that breaks off is none. io.EOF ends them.
func (r *events) next() (event, error) {
	var e event
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if len(line) == 0 {
			return e, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = string(value)
		case "id":
			e.id = string(value)
		case "data":
			if len(e.data)+len(value) >= maxEvent {
				return event{}, errLongEvent
			}
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return event{}, errLongEvent
	case err != nil:
		return event{}, err
	}
	return event{}, io.EOF
}

// The data of the events, as the agent's API has them: api.State, api.Change, api.Sync,
// api.End.
type (
	state struct {
		Rev     string `json:"rev"`
		EpochID string `json:"epochId"`
	}
	change struct {
		Key      string          `json:"key"`
		Value    json.RawMessage `json:"value,omitempty"`
		Encoding string          `json:"encoding,omitempty"`
		ModRev   string          `json:"modRev"`
		By       string          `json:"by,omitempty"`
		At       time.Time       `json:"at,omitzero"`
		Owner    *owner          `json:"owner,omitempty"`
	}
	owner struct {
		Node        string `json:"node"`
		Incarnation uint64 `json:"incarnation"`
		Seq         uint64 `json:"seq"`
		Draining    bool   `json:"draining"`
		Orphaned    bool   `json:"orphaned"`
	}
	synced struct {
		Rev string `json:"rev"`
	}
	end struct {
		Reason string `json:"reason"`
	}
)

// decode reads the data of an event.
func decode[T any](e event) (T, error) {
	var t T
	if err := json.Unmarshal(e.data, &t); err != nil {
		return t, fmt.Errorf("the data of %s is %.100q: %w", e.name, e.data, err)
	}
	return t, nil
}

// parseRev reads a revision, which has to name its epoch.
func parseRev(text string) (kv.Rev, error) {
	if !strings.Contains(text, ".") {
		return kv.Rev{}, fmt.Errorf("revision %.100q: names no epoch", text)
	}
	return kv.ParseRev(text, 0)
}

// point is the revision and the epoch id of a state.
func (s state) point() (rev kv.Rev, epochID [16]byte, err error) {
	if rev, err = parseRev(s.Rev); err != nil {
		return rev, epochID, err
	}
	id, err := hex.DecodeString(s.EpochID)
	if err != nil || len(id) != len(epochID) {
		return rev, epochID, fmt.Errorf("epoch id %.100q: is not the hex of %d bytes", s.EpochID, len(epochID))
	}
	return rev, [16]byte(id), nil
}

// entry is what a put says, or of a delete the key alone.
func (c change) entry(deleted bool) (entry kv.Entry, err error) {
	if entry.Key, err = kv.ParseKey(c.Key); err != nil || deleted {
		return entry, err
	}
	if entry.ModRev, err = parseRev(c.ModRev); err == nil {
		entry.Value, err = c.value()
	}
	if err != nil {
		return kv.Entry{}, fmt.Errorf("key %s: %w", c.Key, err)
	}
	entry.By, entry.At = c.By, c.At
	if o := c.Owner; o != nil {
		entry.Own = &kv.Ownership{
			Owner: kv.OwnerID(o.Node), Mark: kv.OwnerMark{Incarnation: o.Incarnation, Seq: o.Seq},
			Draining: o.Draining, Orphaned: o.Orphaned,
		}
	}
	return entry, nil
}

func (c change) value() ([]byte, error) {
	if len(c.Value) == 0 {
		return nil, errors.New("has no value")
	}
	if c.Encoding == "" {
		return c.Value, nil
	}
	var text string
	if err := json.Unmarshal(c.Value, &text); err != nil {
		return nil, fmt.Errorf("a value with an encoding is a JSON string: %w", err)
	}
	switch c.Encoding {
	case "text":
		return []byte(text), nil
	case "base64":
		return base64.StdEncoding.DecodeString(text)
	}
	return nil, fmt.Errorf("the encoding %.100q is unknown", c.Encoding)
}

// newChange is what an entry is kept as.
func newChange(entry kv.Entry) change {
	c := change{Key: string(entry.Key), Value: entry.Value, ModRev: entry.ModRev.String(), By: entry.By, At: entry.At}
	if !json.Valid(entry.Value) {
		text, _ := json.Marshal(base64.StdEncoding.EncodeToString(entry.Value)) // a string always marshals
		c.Value, c.Encoding = text, "base64"
	}
	if own := entry.Own; own != nil {
		c.Owner = &owner{string(own.Owner), own.Mark.Incarnation, own.Mark.Seq, own.Draining, own.Orphaned}
	}
	return c
}
