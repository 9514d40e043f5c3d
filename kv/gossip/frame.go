package gossip

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"
)

// A frame is one message of gv-spread/1:
//
//	u32 length of the body
//	u32 CRC-32C of kind and body
//	u8  kind
//	    body
type frameKind uint8

// The kinds of frames. The first in each direction of a connection is a hello.
const (
	frameHello     frameKind = iota + 1
	frameDigest              // a digest: heads and what is applied
	frameChanges             // pushed, or an answer to a pull
	framePull                // asks for what comes after a head
	frameSnapshot            // an answer to a pull: chunks follow
	frameChunk               // a part of a snapshot, zstd
	frameEnd                 // of an answer to a pull
	frameBusy                // too many pulls at once: come again
	frameElsewhere           // only a voter can answer this
	frameDiverged            // what was asked for does not follow: a stream and our head
	frameRefusal             // and why; the connection ends
	frameVector              // asks for what a vector of a plane lacks
	frameFlood               // changes of a plane: pushed, or an answer to a vector
	frameBrief               // a brief
)

const (
	frameHeaderBytes = 4 + 4 + 1
	// maxChangesBytes bounds a frame of changes. A commit of the largest transaction,
	// 4 MiB in 10,000 operations, fits.
	maxChangesBytes = 12 << 20
	// chunkBytes is how much of a snapshot goes into a frame.
	chunkBytes = 256 << 10
	// maxFloodFrame bounds a frame of a plane's changes: some small ones, or one of the
	// largest.
	maxFloodFrame = 2 << 20
	// maxSmallBytes bounds the frames of fixed content.
	maxSmallBytes = 4 << 10
)

// maxBody bounds the body of a kind; 0 means that there is no such kind.
func (k frameKind) maxBody() int {
	switch k {
	case frameChanges:
		return maxChangesBytes
	case frameFlood:
		return maxFloodFrame
	case frameVector:
		return 1 + MaxVectorBytes
	case frameChunk:
		return chunkBytes
	case frameHello, frameDigest, frameBrief, framePull, frameSnapshot, frameEnd, frameBusy, frameElsewhere, frameDiverged, frameRefusal:
		return maxSmallBytes
	}
	return 0
}

// Time limits of a connection.
const (
	// idleTime is how long nothing may come. Each side says something every
	// keepAlive.
	idleTime  = 15 * time.Second
	keepAlive = 5 * time.Second
	// frameTime is how long a frame may take to be sent.
	frameTime = 30 * time.Second
	// helloTime is how long dialling may take, and each hello.
	helloTime = 5 * time.Second
)

var errFrame = errors.New("frame is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// connection reads and writes frames. One goroutine reads, one writes.
type connection struct {
	net.Conn
	in   *bufio.Reader
	came func()    // called by the reader whenever bytes have come; nil at first
	key  packetKey // of our hello
}

func newConnection(conn net.Conn) *connection {
	c := &connection{Conn: conn}
	c.in = bufio.NewReaderSize(arrivingAt{c}, 16<<10)
	return c
}

// arrivingAt is what comes over a connection.
type arrivingAt struct{ c *connection }

func (a arrivingAt) Read(b []byte) (int, error) {
	n, err := a.c.Conn.Read(b)
	if n > 0 && a.c.came != nil {
		a.c.came()
	}
	return n, err
}

// write sends a frame.
func (c *connection) write(kind frameKind, body []byte) error {
	if len(body) > kind.maxBody() {
		return fmt.Errorf("frame of kind %d has %d bytes, at most %d are allowed", kind, len(body), kind.maxBody())
	}
	c.SetWriteDeadline(time.Now().Add(frameTime))
	_, err := c.Write(appendFrame(make([]byte, 0, frameHeaderBytes+len(body)), kind, body))
	return err
}

func appendFrame(buf []byte, kind frameKind, body []byte) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)))
	buf = binary.BigEndian.AppendUint32(buf, frameSum(kind, body))
	buf = append(buf, byte(kind))
	return append(buf, body...)
}

func frameSum(kind frameKind, body []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{byte(kind)}, castagnoli), castagnoli, body)
}

// read waits at most idle for a frame to begin, and twice as long for its end.
func (c *connection) read(idle time.Duration) (frameKind, []byte, error) {
	c.SetReadDeadline(time.Now().Add(idle))
	if _, err := c.in.Peek(1); err != nil {
		return 0, nil, err
	}
	c.SetReadDeadline(time.Now().Add(2 * idle))
	return readFrame(c.in)
}

// readFrame allocates no more than about twice what has arrived, whatever length is
// declared.
func readFrame(r io.Reader) (frameKind, []byte, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	length, sum, kind := binary.BigEndian.Uint32(header[:]), binary.BigEndian.Uint32(header[4:]), frameKind(header[8])
	if uint64(length) > uint64(kind.maxBody()) {
		return 0, nil, fmt.Errorf("%w: kind %d with %d bytes", errFrame, kind, length)
	}
	if kind.maxBody() == 0 {
		return 0, nil, fmt.Errorf("%w: kind %d is unknown", errFrame, kind)
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(length)); err != nil {
		return 0, nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	if frameSum(kind, body.Bytes()) != sum {
		return 0, nil, fmt.Errorf("%w: its checksum is wrong", errFrame)
	}
	return kind, body.Bytes(), nil
}
