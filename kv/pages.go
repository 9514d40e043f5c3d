package kv

import (
	"encoding/binary"
	"hash/fnv"
	"os"
)

// The layout of bbolt's meta page, of which there are two, at the first two
// pages: a page header of 16 bytes, then
//
//	magic 4, version 4, page size 4, flags 4, root page 8, root sequence 8,
//	freelist page 8, high-water page 8, transaction 8, FNV-1a of all before 8
//
// in the machine's byte order.
const (
	metaOffset   = 16
	metaSize     = 64
	metaMagic    = 0xED0CDAED
	metaChecksum = metaSize - 8
)

// checkPages refuses a file that bbolt would take for a new one because it is
// empty, or would read beyond the end of because it was cut short.
func checkPages(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	pages, pageSize, found := highWater(file)
	switch {
	case info.Size() == 0:
		return corrupt("is empty", "the file")
	case !found:
		return corrupt("has no valid header", "the file")
	case uint64(info.Size()) < pages*pageSize:
		return corrupt("is cut short", "the file")
	}
	return nil
}

// highWater reads the newer of the valid meta pages: how many pages are in use.
func highWater(file *os.File) (pages, pageSize uint64, found bool) {
	newest := uint64(0)
	for _, size := range []int64{0, int64(os.Getpagesize())} {
		meta := make([]byte, metaSize)
		if _, err := file.ReadAt(meta, size+metaOffset); err != nil || !validMeta(meta) {
			continue
		}
		if txid := binary.NativeEndian.Uint64(meta[48:]); !found || txid > newest {
			newest, found = txid, true
			pages = binary.NativeEndian.Uint64(meta[40:])
			pageSize = uint64(binary.NativeEndian.Uint32(meta[8:]))
		}
	}
	return pages, pageSize, found
}

func validMeta(meta []byte) bool {
	sum := fnv.New64a()
	sum.Write(meta[:metaChecksum])
	return binary.NativeEndian.Uint32(meta) == metaMagic && sum.Sum64() == binary.NativeEndian.Uint64(meta[metaChecksum:])
}
