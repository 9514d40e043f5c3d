package gossip

import (
	"fmt"

	"grapevine/kv"
)

// spreadVersion is that of the hello of gv-spread/1.
const spreadVersion = 2

// purpose is what a connection was opened for.
type purpose uint8

const (
	toPush purpose = iota + 1
	toPull
)

// hello is the first frame of both sides: u8 version, text cluster, u8 purpose, 16 bytes key,
// digest.
type hello struct {
	cluster string
	purpose purpose
	key     packetKey // of what the sender pushes by packets beside this connection
	digest  digest
}

func (h hello) encode() []byte {
	var e encoder
	e.u8(spreadVersion)
	e.text(h.cluster, maxCluster)
	e.u8(uint8(h.purpose))
	e.buf = append(e.buf, h.key[:]...)
	return h.digest.encode(e.buf, maxProblem)
}

func decodeHello(b []byte) (hello, error) {
	d := decoder{rest: b}
	if version := d.u8(); version != spreadVersion && d.problem == "" {
		return hello{}, fmt.Errorf("hello has version %d, here is %d", version, spreadVersion)
	}
	h := hello{cluster: d.text(maxCluster), purpose: purpose(d.u8()), key: packetKey(d.take(len(packetKey{})))}
	if d.problem != "" {
		return hello{}, fmt.Errorf("hello %s", d.problem)
	}
	if h.purpose != toPush && h.purpose != toPull {
		return hello{}, fmt.Errorf("hello has purpose %d", h.purpose)
	}
	var err error
	h.digest, err = decodeDigest(d.rest)
	return h, err
}

// changes is u8 stream, head since, head up to, u32 number, each u32 length and
// content.
type changes struct {
	stream      StreamID
	since, upTo kv.Head // before the first and after the last
	list        [][]byte
}

func (c changes) encode() []byte {
	size := 512
	for _, change := range c.list {
		size += 4 + len(change)
	}
	e := encoder{buf: make([]byte, 0, size)}
	e.u8(uint8(c.stream))
	e.head(c.since)
	e.head(c.upTo)
	e.list(c.list)
	return e.buf
}

func decodeChanges(b []byte) (changes, error) {
	d := decoder{rest: b}
	c := changes{stream: StreamID(d.u8()), since: d.head(), upTo: d.head(), list: d.list()}
	if problem := d.end(); problem != "" {
		return changes{}, fmt.Errorf("changes %s", problem)
	}
	return c, nil
}

// planeChanges is u8 plane, u32 number, each u32 length and content.
type planeChanges struct {
	plane StreamID
	list  [][]byte
}

func (c planeChanges) encode() []byte {
	size := 1 + 4
	for _, change := range c.list {
		size += 4 + len(change)
	}
	e := encoder{buf: make([]byte, 0, size)}
	e.u8(uint8(c.plane))
	e.list(c.list)
	return e.buf
}

func decodePlaneChanges(b []byte) (planeChanges, error) {
	d := decoder{rest: b}
	c := planeChanges{plane: StreamID(d.u8()), list: d.list()}
	if problem := d.end(); problem != "" {
		return planeChanges{}, fmt.Errorf("changes %s", problem)
	}
	return c, nil
}

// list is u32 number, each u32 length and content.
func (e *encoder) list(list [][]byte) {
	e.u32(uint32(len(list)))
	for _, change := range list {
		e.u32(uint32(len(change)))
		e.buf = append(e.buf, change...)
	}
}

func (d *decoder) list() (list [][]byte) {
	n := d.u32()
	if uint64(n) > uint64(len(d.rest)/4) {
		d.fail("are cut short")
		n = 0
	}
	for range n {
		size := d.u32()
		if uint64(size) > uint64(len(d.rest)) {
			d.fail("are cut short")
			break
		}
		list = append(list, d.rest[:size:size])
		d.rest = d.rest[size:]
	}
	return list
}

// point is a stream at a head: what a pull asks from, and a snapshot leads to.
// u8 stream, head.
type point struct {
	stream StreamID
	head   kv.Head
}

func (p point) encode() []byte {
	var e encoder
	e.u8(uint8(p.stream))
	e.head(p.head)
	return e.buf
}

func decodePoint(b []byte) (point, error) {
	d := decoder{rest: b}
	p := point{stream: StreamID(d.u8()), head: d.head()}
	if problem := d.end(); problem != "" {
		return point{}, fmt.Errorf("head of a stream %s", problem)
	}
	return p, nil
}
