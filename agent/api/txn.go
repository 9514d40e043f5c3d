package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// txn runs a transaction.
func (a *API) txn(c *call) error {
	var doc Txn
	if err := c.document(maxBatchBody, &doc); err != nil {
		return err
	}
	b := batch{epoch: a.epoch()}
	t := kv.Txn{
		Compare: b.compares(doc.Compare),
		Then:    b.ops("then", doc.Then),
		Else:    b.ops("else", doc.Else),
	}
	if err := b.err(); err != nil {
		return err
	}
	w, err := a.write(c, t)
	if err != nil {
		return err
	}
	a.answer(c, w.status(), Committed{
		Succeeded: w.result.Succeeded, Rev: w.result.Rev.String(), Changed: keyNames(w.result.Changed),
		Applied: w.applied, DryRun: w.dryRun, Notices: join(b.notices, w.quarantined),
	})
	return nil
}

// batch gathers all that is wrong with a transaction, so that its author hears of it at once.
type batch struct {
	epoch   uint32
	faults  spec.Faults
	refused *failure // the first key or operation that can't be meant
	notices []spec.Fault
}

func (b *batch) err() error {
	switch {
	case b.refused != nil:
		return b.refused
	case len(b.faults) > 0:
		return b.faults
	}
	return nil
}

// take keeps an error and says whether there was none. where is the place in the body.
func (b *batch) take(where string, err error) bool {
	var faults spec.Faults
	switch {
	case err == nil:
		return true
	case errors.As(err, &faults):
		b.faults = append(b.faults, faults...)
	case b.refused == nil:
		f := *failureOf(err)
		f.detail = where + ": " + f.detail
		b.refused = &f
	}
	return false
}

func (b *batch) ops(field string, docs []Op) []kv.Op {
	var ops []kv.Op
	spelled := map[kv.Key]string{}
	for i, doc := range docs {
		op, err := b.op(doc)
		if err == nil && doc.Put != nil {
			err = oneSpelling(spelled, op.Key, doc.Put.Key)
		}
		if b.take(fmt.Sprintf("%s[%d]", field, i), err) {
			ops = append(ops, op)
		}
	}
	return ops
}

// oneSpelling refuses two puts whose keys are one once their ids are folded: one of the values would be lost.
func oneSpelling(spelled map[kv.Key]string, key kv.Key, written string) error {
	if first, twice := spelled[key]; twice && first != written {
		return fail(codeBadKey, "%q and %q are one key, %q", first, written, key)
	}
	spelled[key] = written
	return nil
}

func (b *batch) op(doc Op) (kv.Op, error) {
	switch {
	case doc.Put != nil && doc.Delete == nil && doc.DeleteRange == nil:
		return b.put(*doc.Put)
	case doc.Delete != nil && doc.Put == nil && doc.DeleteRange == nil:
		key, err := writable(doc.Delete.Key)
		return kv.Delete(key), err
	case doc.DeleteRange != nil && doc.Put == nil && doc.Delete == nil:
		prefix := doc.DeleteRange.Prefix
		if prefix == "" {
			return kv.Op{}, fail(codeBadKey, "an empty prefix would delete every key")
		}
		return kv.DeleteRange(prefix), deletable(prefix)
	}
	return kv.Op{}, fail(codeBadRequest, "want exactly one of put, delete and deleteRange")
}

func (b *batch) put(doc PutOp) (kv.Op, error) {
	key, err := writable(doc.Key)
	if err != nil {
		return kv.Op{}, err
	}
	value, err := decodeWire(doc.Key, doc.Value, doc.Encoding)
	b.notices = append(b.notices, value.Notices...)
	return kv.Put(key, value.JSON), err
}

func (b *batch) compares(docs []Compare) []kv.Compare {
	var compares []kv.Compare
	for i, doc := range docs {
		c, err := b.compare(doc)
		if b.take(fmt.Sprintf("compare[%d]", i), err) {
			compares = append(compares, c)
		}
	}
	return compares
}

func (b *batch) compare(doc Compare) (kv.Compare, error) {
	key, err := readable(doc.Key)
	if err != nil {
		return kv.Compare{}, err
	}
	c := kv.Compare{Key: key}
	if c.Op, err = compareOp(doc.Op); err != nil {
		return c, err
	}
	switch doc.Target {
	case "modRev":
		c.Target = kv.TargetModRev
		c.Rev, err = kv.ParseRev(scalar(doc.Value), b.epoch)
	case "version":
		c.Target = kv.TargetVersion
		err = json.Unmarshal(doc.Value, &c.Version)
	case "value":
		c.Target = kv.TargetValue
		var value spec.Decoded
		value, err = decodeWire(doc.Key, doc.Value, "")
		c.Value = value.JSON
	case "absent":
		return compareAbsent(c, doc)
	default:
		return c, fail(codeBadRequest, "target %q: want modRev, version, value or absent", doc.Target)
	}
	if err != nil {
		return c, fail(codeBadRequest, "%s %s: %v", doc.Target, doc.Value, err)
	}
	return c, nil
}

// compareAbsent reads {absent} and {absent, value: true} as "is not there", value: false as "is there".
func compareAbsent(c kv.Compare, doc Compare) (kv.Compare, error) {
	c.Target = kv.TargetAbsent
	switch {
	case doc.Op != "" && doc.Op != "=":
		return c, fail(codeBadRequest, "op %q: absent takes value true or false and no op", doc.Op)
	case doc.Value == nil || bytes.Equal(doc.Value, []byte("true")):
		c.Op = kv.Equal
	case bytes.Equal(doc.Value, []byte("false")):
		c.Op = kv.NotEqual
	default:
		return c, fail(codeBadRequest, "value %s: absent takes true or false", doc.Value)
	}
	return c, nil
}

func compareOp(op string) (kv.CompareOp, error) {
	switch op {
	case "", "=":
		return kv.Equal, nil
	case "!=":
		return kv.NotEqual, nil
	case "<":
		return kv.Less, nil
	case ">":
		return kv.Greater, nil
	}
	return 0, fail(codeBadRequest, "op %q: want =, !=, < or >", op)
}

// scalar is a JSON string or number as plain text.
func scalar(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
