package consensus

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/hashicorp/raft"
)

// recordVersion is the first byte of every record of the log.
const recordVersion = 1

// notKnown stands for the zero time.
const notKnown = math.MinInt64

// recordHead is the size of what stands before the extensions.
const recordHead = 1 + 8 + 1 + 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeRecord makes the record of a log entry. The index is its key, and not
// repeated, but part of the checksum, so that a sound record in another's place
// is found out. Numbers are big-endian.
//
//	version     1 byte
//	term        8 bytes
//	type        1 byte
//	appended    8 bytes, nanoseconds since 1970 (signed), the least number: not known
//	extensions  4 bytes length, then the content
//	data        what is left
//	crc         4 bytes, CRC-32C over the index (8 bytes) and all before
func encodeRecord(entry *raft.Log) []byte {
	b := make([]byte, 0, recordHead+len(entry.Extensions)+len(entry.Data)+4)
	b = append(b, recordVersion)
	b = binary.BigEndian.AppendUint64(b, entry.Term)
	b = append(b, byte(entry.Type))
	appended := int64(notKnown)
	if !entry.AppendedAt.IsZero() {
		appended = entry.AppendedAt.UnixNano()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(appended))
	b = binary.BigEndian.AppendUint32(b, uint32(len(entry.Extensions)))
	b = append(b, entry.Extensions...)
	b = append(b, entry.Data...)
	return binary.BigEndian.AppendUint32(b, recordSum(entry.Index, b))
}

// decodeRecord reads a record into entry, which shares no memory with it.
func decodeRecord(index uint64, record []byte, entry *raft.Log) error {
	if len(record) < recordHead+4 {
		return fmt.Errorf("log entry %d is cut short", index)
	}
	body, sum := record[:len(record)-4], record[len(record)-4:]
	if binary.BigEndian.Uint32(sum) != recordSum(index, body) {
		return fmt.Errorf("log entry %d does not match its checksum", index)
	}
	if body[0] != recordVersion {
		return fmt.Errorf("log entry %d is of version %d, this program knows %d", index, body[0], recordVersion)
	}
	extensions := uint64(binary.BigEndian.Uint32(body[18:]))
	rest := body[recordHead:]
	if extensions > uint64(len(rest)) {
		return fmt.Errorf("log entry %d: its extensions are cut short", index)
	}
	*entry = raft.Log{
		Index: index, Term: binary.BigEndian.Uint64(body[1:]), Type: raft.LogType(body[9]),
		Extensions: clone(rest[:extensions]), Data: clone(rest[extensions:]),
	}
	if appended := int64(binary.BigEndian.Uint64(body[10:])); appended != notKnown {
		entry.AppendedAt = time.Unix(0, appended)
	}
	return nil
}

func recordSum(index uint64, body []byte) uint32 {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], index)
	return crc32.Update(crc32.Checksum(key[:], castagnoli), castagnoli, body)
}

// clone copies b; nothing becomes nil, as raft has it.
func clone(b []byte) []byte { return append([]byte(nil), b...) }
