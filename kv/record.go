package kv

import (
	"encoding/binary"
	"hash/crc32"
)

// Each kind of record has a version of its own, which is the record's first
// byte. A later form gets the next number, and the earlier ones stay readable.
//
// Steps and ledgers of version 1 had no signatures, the steps no Else, and the
// ledger no requests. Entries stay at 1, because they are the same, and because
// the ledger counts on the checksum that an entry's record was written with.
const (
	entryVersion   = 1
	stepVersion    = 2
	ledgerVersion  = 2
	requestVersion = 1
	localVersion   = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal makes a record of a body:
//
//	version  1 byte
//	body     as its own encoding says
//	crc      4 bytes, CRC-32C over name, version and body
//
// The name under which the record is stored is part of the checksum, so that a
// sound record under another's name is found out.
func seal(version byte, name, body []byte) []byte {
	record := make([]byte, 0, 1+len(body)+4)
	record = append(record, version)
	record = append(record, body...)
	return binary.BigEndian.AppendUint32(record, checksum(name, record))
}

// unseal returns the version and the body of a record, or what is wrong with it.
// newest is the last version that the caller can read.
func unseal(newest byte, name, record []byte) (version byte, body []byte, problem string) {
	if len(record) < 1+4 {
		return 0, nil, "is cut short"
	}
	content, crc := record[:len(record)-4], record[len(record)-4:]
	if binary.BigEndian.Uint32(crc) != checksum(name, content) {
		return 0, nil, "does not match its checksum"
	}
	switch version = content[0]; {
	case version == 0:
		return 0, nil, "has no version"
	case version > newest:
		return 0, nil, "is of a newer version than this program knows"
	}
	return version, content[1:], ""
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
	return seal(entryVersion, []byte(entry.Key), e.buf)
}

func decodeEntry(key Key, record []byte) (entry Entry, problem string) {
	_, body, problem := unseal(entryVersion, []byte(key), record)
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
	return seal(stepVersion, revName(s.commit.Rev), e.buf)
}

func decodeStep(name, record []byte) (s *step, problem string) {
	version, body, problem := unseal(stepVersion, name, record)
	if problem != "" {
		return nil, problem
	}
	d := decoder{rest: body}
	s = &step{}
	if version == 1 {
		s.commit = d.commitV1()
	} else {
		s.commit = d.commit()
	}
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
