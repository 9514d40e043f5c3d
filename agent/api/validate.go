package api

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// validate says what a write of the values would say. Values that are good by themselves are then judged together,
// as a dry run on the present state.
func (a *API) validate(c *call) error {
	var doc Validation
	if err := c.document(maxBatchBody, &doc); err != nil {
		return err
	}
	verdict := Verdict{Faults: []spec.Fault{}, Notices: []spec.Fault{}}
	trial := kv.Txn{ID: c.id, By: c.author(), At: time.Now()}
	for _, name := range slices.Sorted(maps.Keys(doc.Values)) {
		op, notices, err := judge(name, doc.Values[name])
		verdict.Notices = append(verdict.Notices, notices...)
		if err == nil {
			trial.Then = append(trial.Then, op)
			continue
		}
		faults, err := asFaults(name, err)
		if err != nil {
			return err
		}
		verdict.Faults = append(verdict.Faults, faults...)
	}
	_, err := a.Log.Trial(c.r.Context(), trial)
	faults, err := asFaults("", err)
	if err != nil {
		return err
	}
	verdict.Faults = append(verdict.Faults, faults...)
	a.answer(c, 200, verdict)
	return nil
}

func judge(name string, value json.RawMessage) (kv.Op, []spec.Fault, error) {
	key, err := writable(name)
	if err != nil {
		return kv.Op{}, nil, err
	}
	decoded, err := decodeWire(name, value, "")
	return kv.Put(key, decoded.JSON), decoded.Notices, err
}

// asFaults turns an error about the values into faults. Another error stays one.
func asFaults(key string, err error) (spec.Faults, error) {
	var faults spec.Faults
	if err == nil || errors.As(err, &faults) {
		return faults, nil
	}
	switch f := failureOf(err); {
	case f == nil:
		return nil, err
	case f.code == codeBadKey || f.code == codeTooLarge:
		return spec.Faults{{Key: key, Problem: f.detail}}, nil
	default:
		return nil, err
	}
}
