package gossip

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"grapevine/kv"
)

var exampleHead = kv.Head{Rev: kv.Rev{Epoch: 1, Rev: 1842}, EpochID: [16]byte{1, 2}, Hash: kv.Hash{3, 4}, Signature: [64]byte{5, 6}}

func exampleDigest() digest {
	return digest{
		id: "01j8example0000000000000000", boot: "4f2a91", members: 0x1122334455667788,
		report: report{seq: 7, applied: Applied{Rev: kv.Rev{Epoch: 1, Rev: 1841}, TableHash: "0011223344556677", Err: "route shop: no such cluster"}},
		heads:  []streamHead{{OperatorStream, exampleHead}},
		planes: []planeDigest{{OwnStream, 0x99aabbccddeeff00}},
	}
}

func exampleMeta() Meta {
	return Meta{ID: "01j8example0000000000000000", Name: "edge-1", Role: Edge, Version: "1.2.3", Region: "north", Peer: "192.0.2.1:7946"}
}

// bareMeta is that of a node without a gateway.
func bareMeta() Meta {
	m := exampleMeta()
	m.NoGateway = true
	return m
}

func exampleChanges() changes {
	upTo := exampleHead
	upTo.Rev.Rev += 2
	return changes{stream: OperatorStream, since: exampleHead, upTo: upTo, list: [][]byte{[]byte("one"), {}}}
}

func examplePlaneChanges() planeChanges {
	return planeChanges{plane: OwnStream, list: [][]byte{[]byte("one"), {}}}
}

// wireForms are all that goes over the wire, by the name of the golden file.
func wireForms() map[string][]byte {
	frame := func(kind frameKind, body []byte) []byte { return appendFrame(nil, kind, body) }
	return map[string][]byte{
		"meta":      encodeMeta(exampleMeta()),
		"meta-bare": encodeMeta(bareMeta()),
		"digest":    exampleDigest().encode([]byte{messageDigest}, packetProblem),
		"brief":     exampleDigest().brief().encode([]byte{messageBrief}),
		"departed":  departed("01j8example-4f2a91"),
		"hello":     frame(frameHello, hello{cluster: "prod", purpose: toPull, key: packetKey{1, 2, 3}, digest: exampleDigest()}.encode()),
		"heads":     frame(frameDigest, exampleDigest().encode(nil, maxProblem)),
		"changes":   frame(frameChanges, exampleChanges().encode()),
		"vector":    frame(frameVector, append([]byte{byte(OwnStream)}, "vector"...)),
		"flood":     frame(frameFlood, examplePlaneChanges().encode()),
		"push":      pushPacket(messageChanges, "01j8example-4f2a91", nil, exampleChanges().encode()),
		"sealed":    pushPacket(messageFlood, "01j8example-4f2a91", &packetKey{1, 2, 3}, examplePlaneChanges().encode()),
		"pull":      frame(framePull, point{OperatorStream, exampleHead}.encode()),
		"snapshot":  frame(frameSnapshot, point{OperatorStream, exampleHead}.encode()),
		"chunk":     frame(frameChunk, []byte("part of a snapshot")),
		"end":       frame(frameEnd, nil),
		"busy":      frame(frameBusy, nil),
		"elsewhere": frame(frameElsewhere, nil),
		"diverged":  frame(frameDiverged, point{OperatorStream, exampleHead}.encode()),
		"refusal":   frame(frameRefusal, []byte("there are too many connections")),
	}
}

// Nodes of different builds understand each other: these bytes are of the first
// version. UPDATE_GOLDEN=1 writes them, for a new version only.
func TestWireIsStable(t *testing.T) {
	for name, got := range wireForms() {
		path := filepath.Join("testdata", name+".hex")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(path, []byte(hex.EncodeToString(got)+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := hex.DecodeString(strings.TrimSpace(string(golden)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%x, want\n%x", name, got, want)
		}
	}
}

func TestWireFormsAreReadBack(t *testing.T) {
	all := cmp.AllowUnexported(digest{}, report{}, streamHead{}, hello{}, changes{}, planeChanges{}, planeDigest{}, point{})
	if got, err := decodeMeta(encodeMeta(bareMeta())); err != nil || got != bareMeta() {
		t.Errorf("bare meta: %+v, %v", got, err)
	}
	if got, err := decodeMeta(encodeMeta(exampleMeta())); err != nil || got != exampleMeta() {
		t.Errorf("meta: got %+v, %v", got, err)
	}
	got, err := decodeDigest(exampleDigest().encode(nil, maxProblem))
	if diff := cmp.Diff(exampleDigest(), got, all); err != nil || diff != "" {
		t.Errorf("digest: %v %s", err, diff)
	}
	greeting := hello{cluster: "prod", purpose: toPush, digest: exampleDigest()}
	if got, err := decodeHello(greeting.encode()); err != nil || cmp.Diff(greeting, got, all) != "" {
		t.Errorf("hello: %v %s", err, cmp.Diff(greeting, got, all))
	}
	if got, err := decodeChanges(exampleChanges().encode()); err != nil || cmp.Diff(exampleChanges(), got, all) != "" {
		t.Errorf("changes: %v %s", err, cmp.Diff(exampleChanges(), got, all))
	}
	if got, err := decodePlaneChanges(examplePlaneChanges().encode()); err != nil || cmp.Diff(examplePlaneChanges(), got, all) != "" {
		t.Errorf("changes of a plane: %v %s", err, cmp.Diff(examplePlaneChanges(), got, all))
	}
	asked := point{OperatorStream, exampleHead}
	if got, err := decodePoint(asked.encode()); err != nil || got != asked {
		t.Errorf("point: got %+v, %v", got, err)
	}
}

// A head has to fit into a packet beside memberlist's own overhead, and into what
// the design allows for it; a Meta into what memberlist carries.
func TestSizes(t *testing.T) {
	d := exampleDigest()
	if size := len(d.brief().encode([]byte{messageBrief})); size != 22 {
		t.Errorf("a brief has %d bytes", size)
	}
	d.report.applied.Err = ""
	if size := len(d.encode(nil, packetProblem)); size > 225 {
		t.Errorf("a head has %d bytes", size)
	}
	d = digest{id: NodeID(strings.Repeat("a", maxIDBytes)), boot: strings.Repeat("b", maxBootBytes)}
	d.report.applied = Applied{TableHash: strings.Repeat("c", maxTableHash), Err: strings.Repeat("d", 999)}
	for i := range maxStreams {
		d.heads = append(d.heads, streamHead{StreamID(i), exampleHead})
		d.planes = append(d.planes, planeDigest{StreamID(maxStreams + i), 1})
	}
	if size := len(d.encode([]byte{messageDigest}, packetProblem)); size > 1200 {
		t.Errorf("the largest head has %d bytes", size)
	}
	if size := len(hello{cluster: strings.Repeat("e", maxCluster), digest: d}.encode()); size > maxSmallBytes {
		t.Errorf("the largest hello has %d bytes", size)
	}
	m := Meta{
		ID: NodeID(strings.Repeat("a", maxIDBytes)), Name: strings.Repeat("b", maxNameBytes), Role: Edge,
		Version: strings.Repeat("c", maxVersionBytes), Region: strings.Repeat("d", maxRegionBytes), Peer: strings.Repeat("e", maxAddressBytes),
	}
	if err := m.check(); err != nil {
		t.Error(err)
	}
	if size := len(encodeMeta(m)); size > 512 {
		t.Errorf("the largest meta has %d bytes", size)
	}
}

func TestMetaIsChecked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Meta)
		want   string
	}{
		{"no id", func(m *Meta) { m.ID = "" }, `node id "": want 1 to 64 of a-z and 0-9`},
		{"id with a dash", func(m *Meta) { m.ID = "a-b" }, `node id "a-b"`},
		{"long name", func(m *Meta) { m.Name = strings.Repeat("n", 97) }, "has 97 bytes, at most 96"},
		{"escape in the name", func(m *Meta) { m.Name = "\x1b[31m" }, "can't be printed"},
		{"bad UTF-8", func(m *Meta) { m.Region = "\xff" }, "can't be printed"},
		{"no role", func(m *Meta) { m.Role = 0 }, "role 0: want voter, learner or edge"},
	} {
		m := exampleMeta()
		tt.change(&m)
		if _, err := decodeMeta(encodeMeta(m)); len(m.Name) <= maxNameBytes && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if err := m.check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// What others write can't paint an operator's terminal.
func TestProblemsArePrintable(t *testing.T) {
	d := exampleDigest()
	d.report.applied.Err = "\x1b]0;owned\x07 cut in two: \xc3"
	got, err := decodeDigest(d.encode(nil, maxProblem))
	if err != nil || got.report.applied.Err != " ]0;owned  cut in two: " {
		t.Errorf("got %q, %v", got.report.applied.Err, err)
	}
}

// Whatever comes, decoding ends without a panic, and what is understood is encoded
// to the same bytes: there is one form of everything.
func FuzzDecode(f *testing.F) {
	for _, form := range wireForms() {
		f.Add(form)
		f.Add(form[1:])
		if len(form) > frameHeaderBytes {
			f.Add(form[frameHeaderBytes:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again := map[string][]byte{}
		if m, err := decodeMeta(b); err == nil {
			again["meta"] = encodeMeta(m)
		}
		if d, err := decodeDigest(b); err == nil && printable(d.report.applied.Err) == rawProblem(b) {
			again["digest"] = d.encode(nil, maxProblem)
		}
		if h, err := decodeHello(b); err == nil && bytes.HasSuffix(b, h.digest.encode(nil, maxProblem)) {
			again["hello"] = h.encode()
		}
		if c, err := decodeChanges(b); err == nil {
			again["changes"] = c.encode()
		}
		if c, err := decodePlaneChanges(b); err == nil {
			again["changes of a plane"] = c.encode()
		}
		if s, err := decodeBrief(b); err == nil {
			again["brief"] = s.encode(nil)
		}
		if p, err := decodePoint(b); err == nil {
			again["point"] = p.encode()
		}
		for name, got := range again {
			if !bytes.Equal(got, b) {
				t.Errorf("%s: %x became %x", name, b, got)
			}
		}
	})
}

// rawProblem is the text in an encoded digest before it is made printable.
func rawProblem(b []byte) string {
	d := decoder{rest: b}
	d.u8()
	d.text(maxIDBytes)
	d.text(maxBootBytes)
	d.u64()
	d.u64()
	d.rev()
	d.text(maxTableHash)
	return d.text(maxProblem)
}

// Frames are read without trust in the length that they declare.
func FuzzFrame(f *testing.F) {
	for _, form := range wireForms() {
		f.Add(form)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, byte(frameChanges), 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, body, err := readFrame(bytes.NewReader(b))
		if err == nil && !bytes.HasPrefix(b, appendFrame(nil, kind, body)) {
			t.Errorf("%x became kind %d, %x", b, kind, body)
		}
	})
}

func TestFramesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frame []byte
	}{
		{"huge length", []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, byte(frameChanges)}},
		{"unknown kind", appendFrame(nil, 99, nil)},
		{"kind 0", appendFrame(nil, 0, nil)},
		{"digest too large", appendFrame(nil, frameDigest, make([]byte, maxSmallBytes+1))},
		{"flipped bit", func() []byte { b := appendFrame(nil, frameChunk, []byte("abc")); b[10] ^= 1; return b }()},
		{"flipped kind", func() []byte { b := appendFrame(nil, frameChunk, []byte("abc")); b[8] = byte(frameRefusal); return b }()},
		{"cut short", appendFrame(nil, frameChunk, make([]byte, 1000))[:500]},
	} {
		began := time.Now()
		kind, body, err := readFrame(bytes.NewReader(tt.frame))
		if err == nil {
			t.Errorf("%s: got kind %d with %d bytes", tt.name, kind, len(body))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: took %v", tt.name, took)
		}
	}
	declared := appendFrame(nil, frameChanges, nil)
	declared[1] = 0xb0 // 11 MiB, of which nothing comes
	if allocated := testing.AllocsPerRun(10, func() { readFrame(bytes.NewReader(declared)) }); allocated > 20 {
		t.Errorf("a declared length costs %v allocations", allocated)
	}
}
