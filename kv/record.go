package kv

import (
	"encoding/binary"
	"hash/crc32"
)

// recordVersion is the first byte of every record. A later form gets the next
// number, and this one stays readable.
const recordVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal makes a record of a body:
//
//	version  1 byte
//	body     as its own encoding says
//	crc      4 bytes, CRC-32C over name, version and body
//
// The name under which the record is stored is part of the checksum, so that a
// sound record under another's name is found out.
func seal(name, body []byte) []byte {
	record := make([]byte, 0, 1+len(body)+4)
	record = append(record, recordVersion)
	record = append(record, body...)
	return binary.BigEndian.AppendUint32(record, checksum(name, record))
}

// unseal returns the body of a record, or what is wrong with it.
func unseal(name, record []byte) (body []byte, problem string) {
	if len(record) < 1+4 {
		return nil, "is cut short"
	}
	content, crc := record[:len(record)-4], record[len(record)-4:]
	if binary.BigEndian.Uint32(crc) != checksum(name, content) {
		return nil, "does not match its checksum"
	}
	if content[0] != recordVersion {
		return nil, "is of a newer version than this program knows"
	}
	return content[1:], ""
}

func checksum(name, content []byte) uint32 {
	return crc32.Update(crc32.Checksum(name, castagnoli), castagnoli, content)
}

// tally is a checksum over a set of records that is cheap to keep: their number
// and the sum of their checksums. A record that is missing, doubled or from an
// older time shows in it, which its own checksum cannot tell.
type tally struct{ count, sum uint64 }

func (t *tally) add(record []byte) {
	t.count++
	t.sum += crcOf(record)
}

func (t *tally) remove(record []byte) {
	t.count--
	t.sum -= crcOf(record)
}

func crcOf(record []byte) uint64 {
	return uint64(binary.BigEndian.Uint32(record[len(record)-4:]))
}

// entry writes an entry without its key:
//
//	rev created, rev modified, u64 version, string By, string Message, time At, bytes value
func (e *encoder) entry(entry Entry) {
	e.rev(entry.CreateRev)
	e.rev(entry.ModRev)
	e.u64(entry.Version)
	e.string(entry.By)
	e.string(entry.Message)
	e.time(entry.At)
	e.bytes(entry.Value)
}

func (d *decoder) entry(key Key) Entry {
	return Entry{
		Key: key, CreateRev: d.rev(), ModRev: d.rev(), Version: d.u64(),
		By: d.string(), Message: d.string(), At: d.time(), Value: d.bytes(),
	}
}

func encodeEntry(entry Entry) []byte {
	var e encoder
	e.entry(entry)
	return seal([]byte(entry.Key), e.buf)
}

func decodeEntry(key Key, record []byte) (entry Entry, problem string) {
	body, problem := unseal([]byte(key), record)
	if problem != "" {
		return Entry{}, problem
	}
	d := decoder{rest: body}
	entry = d.entry(key)
	return entry, d.end()
}

// encodeStep writes a commit, then for each effect: flag, and entry if it is set.
func encodeStep(s *step) []byte {
	var e encoder
	e.commit(s.commit)
	for _, entry := range s.before {
		e.flag(entry != nil)
		if entry != nil {
			e.entry(*entry)
		}
	}
	return seal(revName(s.commit.Rev), e.buf)
}

func decodeStep(name, record []byte) (s *step, problem string) {
	body, problem := unseal(name, record)
	if problem != "" {
		return nil, problem
	}
	d := decoder{rest: body}
	s = &step{commit: d.commit()}
	for _, effect := range s.commit.Effects {
		var before *Entry
		if d.flag() {
			entry := d.entry(effect.Entry.Key)
			before = &entry
		}
		s.before = append(s.before, before)
	}
	return s, d.end()
}

// revName is the name of a step's record: 4 bytes epoch, 8 bytes revision. It
// sorts as revisions do.
func revName(rev Rev) []byte {
	var e encoder
	e.rev(rev)
	return e.buf
}

// ledger is the one record that vouches for all others. Every transaction on
// disk rewrites it.
type ledger struct {
	head Head // of the view
	base Head // where the kept history begins
	// entries and local are over the records of these two buckets. The history
	// needs none: its hashes chain it from base to head.
	entries, local tally
}

var ledgerName = []byte("ledger")

// encodeLedger writes head, base (each: rev, epoch id, u64 index, hash) and the
// tallies of entries and local (each: u64 count, u64 sum).
func encodeLedger(l ledger) []byte {
	var e encoder
	e.head(l.head)
	e.head(l.base)
	e.tally(l.entries)
	e.tally(l.local)
	return seal(ledgerName, e.buf)
}

func decodeLedger(record []byte) (l ledger, problem string) {
	body, problem := unseal(ledgerName, record)
	if problem != "" {
		return ledger{}, problem
	}
	d := decoder{rest: body}
	l = ledger{head: d.head(), base: d.head(), entries: d.tally(), local: d.tally()}
	return l, d.end()
}

func (e *encoder) head(h Head) {
	e.rev(h.Rev)
	e.raw(h.EpochID[:])
	e.u64(h.Index)
	e.raw(h.Hash[:])
}

func (d *decoder) head() Head {
	return Head{Rev: d.rev(), EpochID: [16]byte(d.take(16)), Index: d.u64(), Hash: d.hash()}
}

func (e *encoder) tally(t tally) {
	e.u64(t.count)
	e.u64(t.sum)
}

func (d *decoder) tally() tally { return tally{count: d.u64(), sum: d.u64()} }
