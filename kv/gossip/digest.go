package gossip

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"grapevine/kv"
)

// Messages that go over memberlist begin with their kind.
const (
	// messageDigest is followed by a digest.
	messageDigest = 1
	// messageDeparted is followed by a text: the full name of who left for good.
	messageDeparted = 2
)

const (
	digestVersion = 2
	// maxTableHash bounds the name of a table.
	maxTableHash = 32
	// maxProblem bounds why a revision could not be applied, packetProblem as much
	// of it as goes into a packet.
	maxProblem    = 255
	packetProblem = 40
)

// digest is how far a node is: with its streams, and with serving them. It goes
// into packets, push/pulls and messages of links. It holds no data.
type digest struct {
	id      NodeID
	boot    string
	members uint64 // a sum over the members that it sees alive
	report  report
	heads   []streamHead
	planes  []planeDigest
}

type streamHead struct {
	stream StreamID
	head   kv.Head
}

type planeDigest struct {
	plane  StreamID
	digest uint64
}

// encode appends u8 version, text id, text boot, u64 members, u64 seq, rev applied, text table
// hash, text problem, u8 number of streams, each u8 id and head, u8 number of planes, each
// u8 id and u64 digest: about 200 bytes.
func (d digest) encode(buf []byte, problem int) []byte {
	e := encoder{buf: buf}
	e.u8(digestVersion)
	e.text(string(d.id), maxIDBytes)
	e.text(d.boot, maxBootBytes)
	e.u64(d.members)
	e.u64(d.report.seq)
	e.rev(d.report.applied.Rev)
	e.text(d.report.applied.TableHash, maxTableHash)
	e.text(d.report.applied.Err, problem)
	e.u8(uint8(len(d.heads)))
	for _, h := range d.heads {
		e.u8(uint8(h.stream))
		e.head(h.head)
	}
	e.u8(uint8(len(d.planes)))
	for _, p := range d.planes {
		e.u8(uint8(p.plane))
		e.u64(p.digest)
	}
	return e.buf
}

func decodeDigest(b []byte) (digest, error) {
	d := decoder{rest: b}
	if version := d.u8(); version != digestVersion && d.problem == "" {
		return digest{}, fmt.Errorf("digest has version %d, here is %d", version, digestVersion)
	}
	g := digest{id: NodeID(d.text(maxIDBytes)), boot: d.text(maxBootBytes), members: d.u64()}
	g.report.seq = d.u64()
	g.report.applied = Applied{Rev: d.rev(), TableHash: d.text(maxTableHash), Err: printable(d.text(maxProblem))}
	for range d.few("streams") {
		g.heads = append(g.heads, streamHead{StreamID(d.u8()), d.head()})
	}
	for range d.few("planes") {
		g.planes = append(g.planes, planeDigest{StreamID(d.u8()), d.u64()})
	}
	if problem := d.end(); problem != "" {
		return digest{}, fmt.Errorf("digest %s", problem)
	}
	return g, g.check()
}

// few reads a number of at most maxStreams.
func (d *decoder) few(what string) uint8 {
	n := d.u8()
	if n > maxStreams {
		d.fail("has too many " + what)
		return 0
	}
	return n
}

// printable is a text that was perhaps cut within a character, or is a trap for the
// terminal on which it is shown.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

// check refuses what no node sends.
func (g digest) check() error {
	err := errors.Join(checkID(g.id), checkWord("boot", g.boot, maxBootBytes), checkText("table hash", g.report.applied.TableHash, maxTableHash))
	if err != nil {
		return err
	}
	var ids []StreamID
	for _, h := range g.heads {
		ids = append(ids, h.stream)
	}
	for _, p := range g.planes {
		ids = append(ids, p.plane)
	}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return fmt.Errorf("digest has stream %d twice", id)
		}
	}
	return nil
}

// head is that of one stream.
func (g digest) head(stream StreamID) (kv.Head, bool) {
	for _, h := range g.heads {
		if h.stream == stream {
			return h.head, true
		}
	}
	return kv.Head{}, false
}
