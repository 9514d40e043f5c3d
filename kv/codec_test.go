package kv

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func exampleStep() *step {
	before := Entry{Key: "a", Value: []byte("old"), CreateRev: Rev{1, 1}, ModRev: Rev{1, 1}, Version: 1, By: "uid:0", At: time.Unix(1, 2).UTC()}
	after := Entry{Key: "a", Value: []byte("new"), CreateRev: Rev{1, 1}, ModRev: Rev{1, 2}, Version: 2, By: "uid:1", Message: "why", At: time.Unix(3, 4).UTC()}
	return &step{
		commit: Commit{
			ID: "request", Index: 7, Rev: Rev{1, 2}, Signature: [64]byte{5, 63: 6}, Prev: Hash{1}, Hash: Hash{2},
			By: "uid:1", Message: "why", At: time.Unix(3, 4).UTC(), Else: true,
			Effects: []Effect{{Entry: after}, {Entry: Entry{Key: "b"}, Deleted: true}},
		},
		before: []*Entry{&before, nil},
	}
}

func exampleLedger() ledger {
	return ledger{
		head: Head{Rev: Rev{1, 9}, EpochID: [16]byte{3}, Index: 7, Hash: Hash{2}, Signature: [64]byte{5, 63: 6}},
		base: Head{Rev: Rev{1, 4}, EpochID: [16]byte{3}, Hash: Hash{1}, Signature: [64]byte{7, 63: 8}},

		entries: tally{count: 5, sum: 6}, local: tally{count: 7, sum: 8}, requests: tally{count: 9, sum: 10},
	}
}

func exampleRequest() *request {
	return &request{id: "request", result: Result{Succeeded: true, Rev: Rev{1, 2}, Deleted: 1, Changed: []Key{"a", "b"}}}
}

// What is written today stays readable.
func TestRecordsAreStable(t *testing.T) {
	name := revName(Rev{1, 2})
	for _, tt := range []struct {
		file, name string
		record     []byte
		decode     func(name, record []byte) (again []byte, problem string)
	}{
		{"step.hex", string(name), encodeStep(exampleStep()), func(name, record []byte) ([]byte, string) {
			s, problem := decodeStep(name, record)
			if problem != "" {
				return nil, problem
			}
			return encodeStep(s), ""
		}},
		{"entry.hex", "a", encodeEntry(*exampleStep().before[0]), func(name, record []byte) ([]byte, string) {
			entry, problem := decodeEntry(Key(name), record)
			return encodeEntry(entry), problem
		}},
		{"request.hex", string(name), encodeRequest(exampleRequest()), func(name, record []byte) ([]byte, string) {
			r, problem := decodeRequest(name, record)
			if problem != "" {
				return nil, problem
			}
			return encodeRequest(r), ""
		}},
		{"ledger.hex", string(ledgerName), encodeLedger(exampleLedger()), func(_, record []byte) ([]byte, string) {
			l, problem := decodeLedger(record)
			return encodeLedger(l), problem
		}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			golden, err := os.ReadFile(filepath.Join("testdata", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(tt.record); got != string(bytes.TrimSpace(golden)) {
				t.Errorf("the record is\n%s\nand was\n%s", got, golden)
			}
			if again, problem := tt.decode([]byte(tt.name), tt.record); problem != "" || !bytes.Equal(again, tt.record) {
				t.Errorf("decoded and encoded again it is %x, problem %q", again, problem)
			}
			for i := range tt.record {
				garbled := bytes.Clone(tt.record)
				garbled[i] ^= 1
				if _, problem := tt.decode([]byte(tt.name), garbled); problem == "" {
					t.Errorf("a changed byte %d was not noticed", i)
				}
				if _, problem := tt.decode([]byte(tt.name), tt.record[:i]); problem == "" {
					t.Errorf("a record cut to %d bytes was not noticed", i)
				}
			}
		})
	}
	if _, problem := decodeStep(revName(Rev{1, 3}), encodeStep(exampleStep())); problem == "" {
		t.Error("a record under another name was not noticed")
	}
}

// What the first version wrote is read: it is the same without what came later.
func TestRecordsOfVersion1(t *testing.T) {
	wantStep, wantLedger := exampleStep(), exampleLedger()
	wantStep.commit.Signature, wantStep.commit.Else = [64]byte{}, false
	wantLedger.head.Signature, wantLedger.base.Signature, wantLedger.requests = [64]byte{}, [64]byte{}, tally{}
	s, problem := decodeStep(revName(Rev{1, 2}), goldenRecord(t, "step1.hex"))
	if diff := cmp.Diff(wantStep, s, cmp.AllowUnexported(step{})); problem != "" || diff != "" {
		t.Errorf("step: %s (-want +got):\n%s", problem, diff)
	}
	if l, problem := decodeLedger(goldenRecord(t, "ledger1.hex")); problem != "" || l != wantLedger {
		t.Errorf("ledger: %s, %+v; want %+v", problem, l, wantLedger)
	}
}

func goldenRecord(t *testing.T, file string) []byte {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	record, err := hex.DecodeString(string(bytes.TrimSpace(golden)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return record
}

// Decoding gives back the very values, times and empty ones too.
func TestCodecRoundTrip(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Date(2262, 5, 1, 0, 0, 0, 999_999_999, time.FixedZone("", 3600))} {
		want := exampleStep()
		want.commit.At = canonicalTime(at)
		want.commit.Effects[0].Entry.At = want.commit.At
		want.before[0].At, want.before[0].Value = canonicalTime(at), []byte{}
		got, problem := decodeStep(revName(want.commit.Rev), encodeStep(want))
		if problem != "" {
			t.Fatal(problem)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", at, diff)
		}
	}
}

// The decoders get bodies whose checksum is right, as a writer with a fault
// would make them: they refuse or read, and never panic.
func FuzzDecodeStep(f *testing.F) {
	record := encodeStep(exampleStep())
	f.Add(record[1 : len(record)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		name := revName(Rev{1, 2})
		s, problem := decodeStep(name, seal(stepVersion, name, body))
		if problem != "" {
			return
		}
		// The record may hold another revision than its name says, so that the two
		// checksums differ: bodies are compared.
		if again := encodeStep(s); !bytes.Equal(again[1:len(again)-4], body) {
			t.Errorf("%x became %x", body, again)
		}
	})
}

// A commit goes over the wire and back, and nothing else is taken for one.
func TestCommitCodec(t *testing.T) {
	want := exampleStep().commit
	encoded := AppendCommit([]byte("front"), want)
	if !bytes.HasPrefix(encoded, []byte("front")) {
		t.Fatalf("AppendCommit lost what was there: %q", encoded)
	}
	encoded = encoded[len("front"):]
	got, err := DecodeCommit(encoded)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for i := range encoded {
		if _, err := DecodeCommit(encoded[:i]); err == nil {
			t.Errorf("a commit cut to %d bytes of %d was taken", i, len(encoded))
		}
	}
	if _, err := DecodeCommit(append(encoded, 0)); err == nil {
		t.Error("a commit with a byte after its end was taken")
	}
	encoded[0]++
	if _, err := DecodeCommit(encoded); err == nil || !strings.Contains(err.Error(), "version 2 is newer") {
		t.Errorf("a later version: %v", err)
	}
	if _, err := DecodeCommit(make([]byte, len(encoded))); err == nil || !strings.Contains(err.Error(), "no version") {
		t.Errorf("zeros: %v", err)
	}
}

func FuzzDecodeCommit(f *testing.F) {
	f.Add(AppendCommit(nil, exampleStep().commit))
	f.Add(AppendCommit(nil, Commit{}))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		if c, err := DecodeCommit(encoded); err == nil && !bytes.Equal(AppendCommit(nil, c), encoded) {
			t.Errorf("%x became %x", encoded, AppendCommit(nil, c))
		}
	})
}

func FuzzDecodeEntry(f *testing.F) {
	record := encodeEntry(*exampleStep().before[0])
	f.Add(record[1 : len(record)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		record := seal(entryVersion, []byte("a"), body)
		if entry, problem := decodeEntry("a", record); problem == "" && !bytes.Equal(encodeEntry(entry), record) {
			t.Errorf("%x became %x", record, encodeEntry(entry))
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	record := encodeRequest(exampleRequest())
	f.Add(record[1 : len(record)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		name := revName(Rev{1, 2})
		record := seal(requestVersion, name, body)
		if r, problem := decodeRequest(name, record); problem == "" && !bytes.Equal(encodeRequest(r), record) {
			t.Errorf("%x became %x", record, encodeRequest(r))
		}
	})
}

func FuzzDecodeLedger(f *testing.F) {
	record := encodeLedger(exampleLedger())
	f.Add(record[1 : len(record)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		record := seal(ledgerVersion, ledgerName, body)
		if l, problem := decodeLedger(record); problem == "" && !bytes.Equal(encodeLedger(l), record) {
			t.Errorf("%x became %x", record, encodeLedger(l))
		}
	})
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
