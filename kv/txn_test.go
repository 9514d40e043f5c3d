package kv

import (
	"errors"
	"strings"
	"testing"
)

// The limits hold to the byte, and what is refused names itself.
func TestTxnLimits(t *testing.T) {
	puts := func(n, size int) []Op {
		ops := make([]Op, n)
		for i := range ops {
			ops[i] = Put("k", make([]byte, size))
		}
		return ops
	}
	for _, tt := range []struct {
		name string
		txn  Txn
		want LimitError // zero: taken
	}{
		{"largest value", Txn{Then: puts(1, MaxValueBytes)}, LimitError{}},
		{"a value too large", Txn{Then: puts(1, MaxValueBytes+1)}, LimitError{Key: "k", Got: MaxValueBytes + 1, Max: MaxValueBytes}},
		{"a value too large in Else", Txn{Else: puts(1, MaxValueBytes+1)}, LimitError{Key: "k", Got: MaxValueBytes + 1, Max: MaxValueBytes}},
		{"most operations", Txn{Then: puts(MaxTxnOps, 0)}, LimitError{}},
		{"too many operations", Txn{Then: puts(MaxTxnOps, 0), Else: puts(1, 0)}, LimitError{Got: MaxTxnOps + 1, Max: MaxTxnOps}},
		{"longest id", Txn{ID: strings.Repeat("x", MaxIDBytes)}, LimitError{}},
		{"an id too long", Txn{ID: strings.Repeat("x", MaxIDBytes+1)}, LimitError{Got: MaxIDBytes + 1, Max: MaxIDBytes}},
		{"an author too long", Txn{By: strings.Repeat("x", MaxAuthorBytes+1)}, LimitError{Got: MaxAuthorBytes + 1, Max: MaxAuthorBytes}},
		{"a message too long", Txn{Message: strings.Repeat("x", MaxMessageBytes+1)}, LimitError{Got: MaxMessageBytes + 1, Max: MaxMessageBytes}},
		{"most bytes", Txn{Then: puts(32, MaxTxnBytes/32-1)}, LimitError{}},
		{"too many bytes", Txn{Then: append(puts(32, MaxTxnBytes/32-1), Delete("k"))}, LimitError{Got: MaxTxnBytes + 1, Max: MaxTxnBytes}},
	} {
		_, _, err := View{}.Resolve(tt.txn)
		var refusal *LimitError
		if !errors.As(err, &refusal) {
			refusal = &LimitError{}
		}
		if refusal.Key != tt.want.Key || refusal.Got != tt.want.Got || refusal.Max != tt.want.Max || (err == nil) != (tt.want.Max == 0) {
			t.Errorf("%s: %v; want %+v", tt.name, err, tt.want)
		}
	}
}

func TestTxnThatMakesNoSense(t *testing.T) {
	for _, tt := range []struct {
		txn  Txn
		want string
	}{
		{Txn{Then: []Op{Put("a//b", nil)}}, `key "a//b"`},
		{Txn{Else: []Op{Delete("")}}, `key ""`},
		{Txn{Then: []Op{{Kind: 9, Key: "a"}}}, `key "a": unknown kind 9`},
		{Txn{Compare: []Compare{{Key: "/a"}}}, `key "/a"`},
		{Txn{Compare: []Compare{{Key: "a", Target: 9}}}, "unknown target 9"},
		{Txn{Compare: []Compare{{Key: "a", Op: -1}}}, "unknown operator -1"},
		{Txn{Compare: []Compare{{Key: "a", Target: TargetAbsent, Op: Less}}}, "never less or greater"},
	} {
		commit, _, err := View{}.Resolve(tt.txn)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !commit.Rev.IsZero() {
			t.Errorf("%+v: %v; want %q", tt.txn, err, tt.want)
		}
	}
}

// What one transaction does to one key counts once.
func TestTxnWithinItself(t *testing.T) {
	s := storeAt(start)
	put(t, s, "a", []byte("old"))
	for _, tt := range []struct {
		name    string
		ops     []Op
		value   string // "" if the key is gone
		version uint64
		create  uint64
	}{
		{"written twice", []Op{Put("a", []byte("x")), Put("a", []byte("y"))}, "y", 2, 1},
		{"replaced", []Op{Delete("a"), Put("a", []byte("new"))}, "new", 1, 2},
		{"written and deleted", []Op{Put("a", []byte("x")), Delete("a")}, "", 0, 0},
	} {
		commit, _, err := s.View().Resolve(Txn{Then: tt.ops})
		if err != nil {
			t.Fatal(err)
		}
		view, err := s.View().Apply(commit)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := view.Get("a")
		if string(got.Value) != tt.value || got.Version != tt.version || got.CreateRev.Rev != tt.create {
			t.Errorf("%s: %q, version %d, created in %s", tt.name, got.Value, got.Version, got.CreateRev)
		}
	}
	commit, result, err := s.View().Resolve(Txn{Then: []Op{Put("b", nil), Delete("b"), DeleteRange("none")}})
	if err != nil || !commit.Rev.IsZero() || result.Rev != s.View().Rev() {
		t.Errorf("what comes and goes changes nothing, got %+v, %+v, %v", commit, result, err)
	}
}
