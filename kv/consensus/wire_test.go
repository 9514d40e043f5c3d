package consensus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"grapevine/kv"
)

// someTxn has every field and every kind of compare and operation.
var someTxn = kv.Txn{
	ID: "id", By: "ann", Message: "why", At: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC),
	Compare: []kv.Compare{
		{Key: "a", Target: kv.TargetModRev, Op: kv.Equal, Rev: kv.Rev{Epoch: 1, Rev: 2}},
		{Key: "b", Target: kv.TargetVersion, Op: kv.Less, Version: 9},
		{Key: "c", Target: kv.TargetValue, Op: kv.NotEqual, Value: []byte("v")},
		{Key: "d", Target: kv.TargetAbsent},
	},
	Then: []kv.Op{kv.Put("a", []byte("1")), kv.Delete("b"), kv.DeleteRange("c/")},
	Else: []kv.Op{kv.Put("e", []byte("2"))},
}

var emptySlices = cmp.FilterValues(func(a, b []byte) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())

// A call reads as it was written, and nothing that is cut short does.
func TestCallTravels(t *testing.T) {
	sent := call{term: 7, patience: 1500 * time.Millisecond, txn: someTxn}
	b := sent.encode(true)
	got, err := decodeCall(b, true)
	if err != nil || !cmp.Equal(sent, got, cmp.AllowUnexported(call{}), emptySlices) {
		t.Errorf("%v: %s", err, cmp.Diff(sent, got, cmp.AllowUnexported(call{}), emptySlices))
	}
	for n := range b {
		if _, err := decodeCall(b[:n], true); err == nil {
			t.Errorf("the first %d of %d bytes were taken", n, len(b))
		}
	}
	if _, err := decodeCall(append(b, 0), true); err == nil {
		t.Error("a byte more was taken")
	}
	if read, err := decodeCall(call{term: 3}.encode(false), false); err != nil || read.term != 3 {
		t.Errorf("a read: %+v, %v", read, err)
	}
}

// colourError is an error of a Check with details.
type colourError struct{ colours []string }

func (e *colourError) Error() string { return "bad colours: " + strings.Join(e.colours, ", ") }

type colourCodec struct{}

func (colourCodec) EncodeError(err error) (string, []byte, bool) {
	var colours *colourError
	if !errors.As(err, &colours) {
		return "", nil, false
	}
	return "colours", []byte(strings.Join(colours.colours, "\n")), true
}

func (colourCodec) DecodeError(kind string, detail []byte) (error, bool) {
	if kind != "colours" {
		return nil, false
	}
	return &colourError{colours: strings.Split(string(detail), "\n")}, true
}

// Every error that a caller tells apart arrives as what it was.
func TestErrorsTravel(t *testing.T) {
	check := func(name string, sent error, codec ErrorCodec, is func(error) bool) {
		t.Helper()
		got, err := decodeAnswer(encodeError(sent, codec), codec)
		if err != nil || got.err == nil || !is(got.err) {
			t.Errorf("%s: %v arrives as %#v, %v", name, sent, got.err, err)
		}
	}
	wrapped := func(err error) error { return fmt.Errorf("by the way: %w", err) }
	check("refused", errors.New("no"), nil, func(err error) bool {
		var refused *RefusedError
		return errors.As(err, &refused) && refused.Message == "no"
	})
	check("not leader", wrapped(&NotLeaderError{Leader: Leader{Address: "h:1", Term: 4}}), nil, func(err error) bool {
		var not *NotLeaderError
		return errors.As(err, &not) && not.Leader == Leader{Address: "h:1", Term: 4}
	})
	check("unknown", &UnknownError{ID: "x", Err: io.EOF}, nil, func(err error) bool {
		var unknown *UnknownError
		return errors.As(err, &unknown) && unknown.ID == "x" && unknown.Err.Error() == "EOF"
	})
	check("key", wrapped(&kv.KeyError{Key: "a//b", Problem: "p"}), nil, func(err error) bool {
		var key *kv.KeyError
		return errors.As(err, &key) && *key == kv.KeyError{Key: "a//b", Problem: "p"}
	})
	check("limit", &kv.LimitError{Key: "k", What: "w", Got: 5, Max: 4}, nil, func(err error) bool {
		var limit *kv.LimitError
		return errors.As(err, &limit) && *limit == kv.LimitError{Key: "k", What: "w", Got: 5, Max: 4}
	})
	check("disk full", wrapped(kv.ErrDiskFull), nil, func(err error) bool {
		return errors.Is(err, kv.ErrDiskFull) && strings.HasPrefix(err.Error(), "by the way")
	})
	check("read-only", kv.ErrReadOnly, nil, func(err error) bool { return errors.Is(err, kv.ErrReadOnly) })
	check("late", context.DeadlineExceeded, nil, isNotDone)
	check("closed", ErrClosed, nil, isNotDone)
	check("stopped", &StoppedError{Index: 3, Err: io.EOF}, nil, isNotDone)
	colours := &colourError{colours: []string{"red", "blue"}}
	check("check's own", wrapped(colours), colourCodec{}, func(err error) bool {
		var got *colourError
		return errors.As(err, &got) && cmp.Equal(got.colours, colours.colours)
	})
	answered, err := decodeAnswer(encodeError(colours, colourCodec{}), nil)
	if err != nil || answered.err.Error() != colours.Error() {
		t.Errorf("without a codec: %v, %v; want the text", answered.err, err)
	}
}

func FuzzCall(f *testing.F) {
	f.Add(call{term: 7, patience: time.Second, txn: someTxn}.encode(true))
	f.Add(call{}.encode(true))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeCall(b, true)
		if err != nil {
			return
		}
		again, err := decodeCall(got.encode(true), true)
		if err != nil || !cmp.Equal(got, again, cmp.AllowUnexported(call{}), emptySlices) {
			t.Errorf("%+v becomes %+v, %v", got, again, err)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(encodeResult(kv.Result{Succeeded: true, Rev: kv.Rev{Epoch: 1, Rev: 2}, Deleted: 1, Changed: []kv.Key{"a", "b"}}))
	f.Add(encodeRev(kv.Rev{Epoch: 1, Rev: 2}))
	f.Add(encodeError(&colourError{}, colourCodec{}))
	f.Add(encodeError(&NotLeaderError{}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeAnswer(b, colourCodec{})
		if err == nil && got.err == nil && got.rev.IsZero() {
			if again := encodeResult(got.result); len(b) > 1 && b[1] == answerResult && !bytes.Equal(again, b) {
				t.Errorf("%x becomes %x", b, again)
			}
		}
	})
}
