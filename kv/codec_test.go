package kv

import (
	"bytes"
	"encoding/hex"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func exampleStep() *step {
	before := Entry{Key: "a", Value: []byte("old"), CreateRev: Rev{1, 1}, ModRev: Rev{1, 1}, Version: 1, By: "uid:0", At: time.Unix(1, 2).UTC()}
	after := Entry{Key: "a", Value: []byte("new"), CreateRev: Rev{1, 1}, ModRev: Rev{1, 2}, Version: 2, By: "uid:1", Message: "why", At: time.Unix(3, 4).UTC()}
	return &step{
		commit: Commit{
			ID: "request", Index: 7, Rev: Rev{1, 2}, Prev: Hash{1}, Hash: Hash{2}, By: "uid:1", Message: "why", At: time.Unix(3, 4).UTC(),
			Effects: []Effect{{Entry: after}, {Entry: Entry{Key: "b"}, Deleted: true}},
		},
		before: []*Entry{&before, nil},
	}
}

// What was written stays readable: this record is of the first version.
func TestStepRecordIsStable(t *testing.T) {
	golden, err := os.ReadFile("testdata/step.hex")
	if err != nil {
		t.Fatal(err)
	}
	record := encodeStep(exampleStep())
	if got := hex.EncodeToString(record); got != string(bytes.TrimSpace(golden)) {
		t.Errorf("record is\n%s\nand was\n%s", got, golden)
	}
	s, problem := decodeStep(revName(Rev{1, 2}), record)
	if problem != "" {
		t.Fatal(problem)
	}
	if again := encodeStep(s); !bytes.Equal(again, record) {
		t.Errorf("decoded and encoded again it is %x", again)
	}
	for i := range record {
		garbled := bytes.Clone(record)
		garbled[i] ^= 1
		if _, problem := decodeStep(revName(Rev{1, 2}), garbled); problem == "" {
			t.Errorf("a changed byte %d was not noticed", i)
		}
	}
	if _, problem := decodeStep(revName(Rev{1, 3}), record); problem == "" {
		t.Error("a record under another name was not noticed")
	}
}

func TestEntryRecord(t *testing.T) {
	entry := *exampleStep().before[0]
	got, problem := decodeEntry("a", encodeEntry(entry))
	if problem != "" {
		t.Fatal(problem)
	}
	if diff := cmp.Diff(entry, got); diff != "" {
		t.Error(diff)
	}
}

// The decoders get bodies whose checksum is right, as a writer with a fault
// would make them: they refuse or read, and never panic.
func FuzzDecodeStep(f *testing.F) {
	record := encodeStep(exampleStep())
	f.Add(record[1 : len(record)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		name := revName(Rev{1, 2})
		if s, problem := decodeStep(name, seal(name, body)); problem == "" && len(s.before) != len(s.commit.Effects) {
			t.Errorf("%d effects, %d entries before", len(s.commit.Effects), len(s.before))
		}
	})
}

func FuzzDecodeEntry(f *testing.F) {
	record := encodeEntry(*exampleStep().before[0])
	f.Add(record[1 : len(record)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		entry, problem := decodeEntry("a", seal([]byte("a"), body))
		if problem != "" {
			return
		}
		if again := encodeEntry(entry); !bytes.Equal(again, seal([]byte("a"), body)) {
			t.Errorf("%x became %x", body, again)
		}
	})
}

func FuzzDecodeLedger(f *testing.F) {
	record := encodeLedger(ledger{})
	f.Add(record[1 : len(record)-4])
	f.Fuzz(func(_ *testing.T, body []byte) { decodeLedger(seal(ledgerName, body)) })
}

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"", "a", "a/b", "a//b", "/a", "a/", "..", "a/../b", "a b", "\x00", "a%2e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if key, err := ParseKey(s); err == nil && (string(key) != s || !Under("", key) || !Under(s, key) || Under(s+"/", key)) {
			t.Errorf("%q became %q", s, key)
		}
	})
}

func TestParseRev(t *testing.T) {
	for input, want := range map[string]Rev{"1842": {3, 1842}, "1.1842": {1, 1842}, "0": {3, 0}} {
		if got, err := ParseRev(input, 3); err != nil || got != want {
			t.Errorf("ParseRev(%q) = %v, %v; want %v", input, got, err, want)
		}
	}
	for _, input := range []string{"", "x", "1.", ".1", "1.2.3", "-1", "1.-1", "4294967296.1", "18446744073709551616", " 1", "1e3"} {
		if got, err := ParseRev(input, 3); err == nil {
			t.Errorf("ParseRev(%q) = %v", input, got)
		}
	}
}
