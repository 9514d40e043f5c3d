package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"grapevine/kv"
)

const (
	// wireVersion is the first byte of every call and answer.
	wireVersion = 1
	// maxCallBytes bounds a call: a transaction of the largest size and number of
	// operations, with what stands around each.
	maxCallBytes = kv.MaxTxnBytes + kv.MaxTxnOps*64 + 64<<10
	// maxAnswerBytes bounds an answer. It lists the keys that changed: a range
	// delete of a hundred thousand of the longest keys fits.
	maxAnswerBytes = 64 << 20
)

// call is what a node asks the leader.
//
//	version  u8
//	term     u64, the term in which it takes the other for the leader
//	patience u64, milliseconds for which the answer is waited for; 0: not said
//	txn      the transaction, but for a read
type call struct {
	term     uint64
	patience time.Duration
	txn      kv.Txn
}

func (c call) encode(withTxn bool) []byte {
	var e encoder
	e.u8(wireVersion)
	e.u64(c.term)
	e.u64(uint64(c.patience.Milliseconds()))
	if withTxn {
		e.txn(c.txn)
	}
	return e.buf
}

func decodeCall(b []byte, withTxn bool) (call, error) {
	d := decoder{rest: b}
	d.version()
	c := call{term: d.u64()}
	c.patience = time.Duration(min(d.u64(), uint64(maxPatience/time.Millisecond))) * time.Millisecond
	if withTxn {
		c.txn = d.txn()
	}
	if err := d.end(); err != nil {
		return call{}, fmt.Errorf("the call %w", err)
	}
	return c, nil
}

func (d *decoder) version() {
	if d.u8() != wireVersion {
		d.fail(errForm)
	}
}

// txn writes a transaction:
//
//	string id, by, message, time at
//	u32 number of compares, each: string key, u8 target, u8 operator, rev,
//	    u64 version, bytes value
//	u32 number of operations in Then, each: u8 kind, string key, string prefix,
//	    bytes value
//	u32 number of operations in Else, each as before
func (e *encoder) txn(t kv.Txn) {
	e.string(t.ID)
	e.string(t.By)
	e.string(t.Message)
	e.time(t.At)
	e.u32(uint32(len(t.Compare)))
	for _, c := range t.Compare {
		e.string(string(c.Key))
		e.u8(byte(c.Target))
		e.u8(byte(c.Op))
		e.rev(c.Rev)
		e.u64(c.Version)
		e.bytes(c.Value)
	}
	e.ops(t.Then)
	e.ops(t.Else)
}

func (e *encoder) ops(ops []kv.Op) {
	e.u32(uint32(len(ops)))
	for _, op := range ops {
		e.u8(byte(op.Kind))
		e.string(string(op.Key))
		e.string(op.Prefix)
		e.bytes(op.Value)
	}
}

// The sizes of the smallest compare and operation.
const (
	leastCompare = 4 + 1 + 1 + 12 + 8 + 4
	leastOp      = 1 + 4 + 4 + 4
)

func (d *decoder) txn() kv.Txn {
	t := kv.Txn{ID: d.string(), By: d.string(), Message: d.string(), At: d.time()}
	for range d.count(leastCompare) {
		t.Compare = append(t.Compare, kv.Compare{
			Key: kv.Key(d.string()), Target: kv.Target(d.u8()), Op: kv.CompareOp(d.u8()),
			Rev: d.rev(), Version: d.u64(), Value: d.bytes(),
		})
	}
	t.Then, t.Else = d.ops(), d.ops()
	return t
}

func (d *decoder) ops() []kv.Op {
	var ops []kv.Op
	for range d.count(leastOp) {
		ops = append(ops, kv.Op{Kind: kv.OpKind(d.u8()), Key: kv.Key(d.string()), Prefix: d.string(), Value: d.bytes()})
	}
	return ops
}

// The first byte of an answer after the version.
const (
	answerResult = iota // flag succeeded, rev, u64 deleted, u32 number of keys, string each
	answerRev           // rev
	answerError         // as encodeError says
)

func encodeResult(r kv.Result) []byte {
	e := encoder{buf: []byte{wireVersion, answerResult}}
	e.flag(r.Succeeded)
	e.rev(r.Rev)
	e.u64(uint64(r.Deleted))
	e.u32(uint32(len(r.Changed)))
	for _, key := range r.Changed {
		e.string(string(key))
	}
	return e.buf
}

func encodeRev(r kv.Rev) []byte {
	e := encoder{buf: []byte{wireVersion, answerRev}}
	e.rev(r)
	return e.buf
}

// answer is what the leader said.
type answer struct {
	result kv.Result // of a propose or a trial
	rev    kv.Rev    // of a read
	err    error
}

func decodeAnswer(b []byte, codec ErrorCodec) (answer, error) {
	d := decoder{rest: b}
	d.version()
	var a answer
	switch d.u8() {
	case answerResult:
		a.result = kv.Result{Succeeded: d.flag(), Rev: d.rev(), Deleted: int(d.u64())}
		for range d.count(4) {
			a.result.Changed = append(a.result.Changed, kv.Key(d.string()))
		}
	case answerRev:
		a.rev = d.rev()
	case answerError:
		a.err = d.error(codec)
	default:
		d.fail(errForm)
	}
	if err := d.end(); err != nil {
		return answer{}, fmt.Errorf("the answer %w", err)
	}
	return a, nil
}

// ErrorCodec carries the errors of a Check, or of Admit, over the wire, so that a
// caller can tell them apart as if the leader were here. It is for any number of
// goroutines.
type ErrorCodec interface {
	// EncodeError gives an error's kind, a name that DecodeError knows, and its
	// details. ok is false for an error that it does not know: only the text travels.
	EncodeError(err error) (kind string, detail []byte, ok bool)
	// DecodeError reverses it. The detail comes from the network, and is nil for a
	// kind that it does not know.
	DecodeError(kind string, detail []byte) (err error, ok bool)
}

// The kinds of errors that this package knows itself.
const (
	errorRefused   = iota // string text
	errorNotLeader        // string address, u64 term
	errorUnknown          // string id, string text
	errorKey              // string key, string problem
	errorLimit            // string key, string what, u64 got, u64 max
	errorDiskFull         // string text
	errorReadOnly         // string text
	errorCustom           // string kind, bytes detail, string text
	errorNotDone          // string text
)

func encodeError(err error, codec ErrorCodec) []byte {
	e := encoder{buf: []byte{wireVersion, answerError}}
	var notLeader *NotLeaderError
	var unknown *UnknownError
	var key *kv.KeyError
	var limit *kv.LimitError
	switch {
	case errors.As(err, &notLeader):
		e.u8(errorNotLeader)
		e.string(notLeader.Leader.Address)
		e.u64(notLeader.Leader.Term)
	case errors.As(err, &unknown):
		e.u8(errorUnknown)
		e.string(unknown.ID)
		e.string(unknown.Err.Error())
	case e.custom(err, codec):
	case isNotDone(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, ErrClosed):
		e.u8(errorNotDone)
		e.string(err.Error())
	case errors.As(err, &key):
		e.u8(errorKey)
		e.string(key.Key)
		e.string(key.Problem)
	case errors.As(err, &limit):
		e.u8(errorLimit)
		e.string(string(limit.Key))
		e.string(limit.What)
		e.u64(uint64(limit.Got))
		e.u64(uint64(limit.Max))
	case errors.Is(err, kv.ErrDiskFull):
		e.u8(errorDiskFull)
		e.string(err.Error())
	case errors.Is(err, kv.ErrReadOnly):
		e.u8(errorReadOnly)
		e.string(err.Error())
	default:
		e.u8(errorRefused)
		e.string(err.Error())
	}
	return e.buf
}

func (e *encoder) custom(err error, codec ErrorCodec) bool {
	if codec == nil {
		return false
	}
	kind, detail, ok := codec.EncodeError(err)
	if !ok {
		return false
	}
	e.u8(errorCustom)
	e.string(kind)
	e.bytes(detail)
	e.string(err.Error())
	return true
}

func (d *decoder) error(codec ErrorCodec) error {
	switch d.u8() {
	case errorRefused:
		return &RefusedError{Message: d.string()}
	case errorNotLeader:
		return &NotLeaderError{Leader: Leader{Address: d.string(), Term: d.u64()}}
	case errorUnknown:
		return &UnknownError{ID: d.string(), Err: errors.New(d.string())}
	case errorKey:
		return &kv.KeyError{Key: d.string(), Problem: d.string()}
	case errorLimit:
		return &kv.LimitError{Key: kv.Key(d.string()), What: d.string(), Got: int(d.u64()), Max: int(d.u64())}
	case errorDiskFull:
		return &distantError{text: d.string(), is: kv.ErrDiskFull}
	case errorReadOnly:
		return &distantError{text: d.string(), is: kv.ErrReadOnly}
	case errorNotDone:
		return &notDoneError{text: d.string()}
	case errorCustom:
		return d.customError(codec)
	}
	d.fail(errForm)
	return nil
}

func (d *decoder) customError(codec ErrorCodec) error {
	kind, detail, text := d.string(), d.bytes(), d.string()
	if codec != nil && d.err == nil {
		if err, ok := codec.DecodeError(kind, detail); ok {
			return err
		}
	}
	return &RefusedError{Message: text}
}

// distantError is a sentinel with the text that it had on the leader.
type distantError struct {
	text string
	is   error
}

func (e *distantError) Error() string { return e.text }
func (e *distantError) Unwrap() error { return e.is }
