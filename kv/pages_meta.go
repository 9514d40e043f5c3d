package kv

import (
	"errors"
	"hash/fnv"
	"io"
	"math/bits"
)

// A bbolt file has two meta pages that are written in turns; the one with the
// higher transaction number is the newest. If it is damaged bbolt takes the
// other, and the last acknowledged write is gone without a word. So both must be
// sound. A write that was cut off cannot look like damage: the 80 bytes lie
// within one sector, which disks write as a whole.
//
// After the page's header:
//
//	u32 magic, u32 version, u32 page size, u32 flags, u64 root page, u64 sequence,
//	u64 freelist page, u64 number of pages, u64 transaction, u64 FNV-1a of all before
const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSummed  = 56
	metaSize    = pageHeader + metaSummed + 8

	leastPageSize = 1 << 10
	mostPageSize  = 1 << 16
)

type metaPage struct {
	pageSize       int64
	root, freelist uint64
	pages          uint64
	transaction    uint64
}

// newestMeta reads both meta pages of a file of the given size.
func newestMeta(file io.ReaderAt, size int64) (metaPage, error) {
	first, err := readMeta(file, 0, 0)
	if err != nil {
		return metaPage{}, err
	}
	second, err := readMeta(file, 1, first.pageSize)
	if err != nil {
		return metaPage{}, err
	}
	newest := first
	if second.transaction > first.transaction {
		newest = second
	}
	if second.pageSize != first.pageSize {
		return metaPage{}, corrupt("do not agree on the size of a page", "the meta pages")
	}
	if newest.pages < 2 || newest.pages > uint64(size/newest.pageSize) {
		return metaPage{}, corrupt("is too short for its pages", "the file")
	}
	return newest, nil
}

func readMeta(file io.ReaderAt, id uint64, offset int64) (metaPage, error) {
	page := make([]byte, metaSize)
	if _, err := file.ReadAt(page, offset); errors.Is(err, io.EOF) {
		return metaPage{}, corrupt("is cut off: the file is too short", "meta page %d", id)
	} else if err != nil {
		return metaPage{}, err
	}
	b := page[pageHeader:]
	sum := fnv.New64a()
	sum.Write(b[:metaSummed])
	switch {
	case native.Uint32(b) != metaMagic:
		return metaPage{}, corrupt("is not that of a store", "meta page %d", id)
	case native.Uint32(b[4:]) != metaVersion:
		return metaPage{}, corrupt("is of another version", "meta page %d", id)
	case native.Uint64(b[metaSummed:]) != sum.Sum64():
		return metaPage{}, corrupt("does not match its checksum", "meta page %d", id)
	}
	meta := metaPage{
		pageSize: int64(native.Uint32(b[8:])),
		root:     native.Uint64(b[16:]), freelist: native.Uint64(b[32:]),
		pages: native.Uint64(b[40:]), transaction: native.Uint64(b[48:]),
	}
	if meta.pageSize < leastPageSize || meta.pageSize > mostPageSize || bits.OnesCount64(uint64(meta.pageSize)) != 1 {
		return metaPage{}, corrupt("has an impossible size of pages", "meta page %d", id)
	}
	return meta, nil
}
