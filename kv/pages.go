package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// This file checks the structure of a bbolt file before bbolt maps it. bbolt
// trusts every number in its pages: a damaged one makes it panic in a goroutine
// of its own, follow a circle until the stack ends the process, hand out a page
// that is in use, or go back to the transaction before the last without a word.
// The content of the records has checksums of its own and is not judged here.
//
// The layout, in the byte order of the machine, with pages of equal size:
//
//	page    u64 id, u16 flags, u16 count, u32 overflow (further pages it spans)
//	branch  per element: u32 position, u32 key size, u64 child page
//	leaf    per element: u32 flags, u32 position, u32 key size, u32 value size
//	free    u64 per free page; if count is 0xFFFF the first u64 is the count
//	bucket  as a leaf's value: u64 root page, u64 sequence; with root 0 a leaf
//	        page follows inline
const (
	pageHeader   = 16
	elementSize  = 16
	bucketHeader = 16

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10

	elementIsBucket = 0x01
	longFreelist    = 0xFFFF
)

var native = binary.NativeEndian

// pageChecker walks a file from its newest meta page. Every page is either
// reached once, or free, or the freelist itself.
type pageChecker struct {
	file io.ReaderAt
	meta metaPage
	seen []bool
}

// checkPages returns a *CorruptError for the first thing that is wrong.
func checkPages(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return checkImage(file, info.Size())
}

func checkImage(file io.ReaderAt, size int64) error {
	meta, err := newestMeta(file, size)
	if err != nil {
		return err
	}
	c := &pageChecker{file: file, meta: meta, seen: make([]bool, meta.pages)}
	c.seen[0], c.seen[1] = true, true
	if err := c.tree(meta.root, nil, nil); err != nil {
		return err
	}
	if err := c.freelist(meta.freelist); err != nil {
		return err
	}
	for id, seen := range c.seen {
		if !seen {
			return corrupt("is neither in use nor free", "page %d", id)
		}
	}
	return nil
}

// tree checks a page and everything below it. All keys must be at least low and
// below high, where nil is no bound.
func (c *pageChecker) tree(id uint64, low, high []byte) error {
	page, err := c.page(id)
	if err != nil {
		return err
	}
	switch flags := native.Uint16(page[8:]); flags {
	case flagBranch:
		return c.branch(id, page, low, high)
	case flagLeaf:
		return c.leaf(id, page, low, high)
	default:
		return corrupt(fmt.Sprintf("has the type %#x of no tree", flags), "page %d", id)
	}
}

func (c *pageChecker) branch(id uint64, page, low, high []byte) error {
	elements, err := parseElements(id, page)
	if err != nil {
		return err
	}
	if len(elements) == 0 {
		return corrupt("is a branch to nothing", "page %d", id)
	}
	if err := checkOrder(id, elements, low, high); err != nil {
		return err
	}
	for i, element := range elements {
		next := high
		if i+1 < len(elements) {
			next = elements[i+1].key
		}
		if err := c.tree(element.child, element.key, next); err != nil {
			return err
		}
	}
	return nil
}

func (c *pageChecker) leaf(id uint64, page, low, high []byte) error {
	elements, err := parseElements(id, page)
	if err != nil {
		return err
	}
	if err := checkOrder(id, elements, low, high); err != nil {
		return err
	}
	for _, element := range elements {
		if !element.bucket {
			continue
		}
		if err := c.bucket(id, element.value); err != nil {
			return err
		}
	}
	return nil
}

// bucket checks what a leaf's value on page id leads to.
func (c *pageChecker) bucket(id uint64, value []byte) error {
	if len(value) < bucketHeader {
		return corrupt("has a bucket that is cut short", "page %d", id)
	}
	if root := native.Uint64(value); root != 0 {
		return c.tree(root, nil, nil)
	}
	inline := value[bucketHeader:]
	if len(inline) < pageHeader || native.Uint16(inline[8:]) != flagLeaf {
		return corrupt("has an inline bucket that is no leaf", "page %d", id)
	}
	return c.leaf(id, inline, nil, nil)
}

// freelist checks the list of free pages and marks those.
func (c *pageChecker) freelist(id uint64) error {
	page, err := c.page(id)
	if err != nil {
		return err
	}
	if native.Uint16(page[8:]) != flagFreelist {
		return corrupt("is not the freelist", "page %d", id)
	}
	list, count := page[pageHeader:], uint64(native.Uint16(page[10:]))
	if count == longFreelist {
		count, list = native.Uint64(list), list[8:]
	}
	if count > uint64(len(list)/8) {
		return corrupt("lists more free pages than it can hold", "page %d", id)
	}
	for i := range count {
		if err := c.claim(native.Uint64(list[8*i:])); err != nil {
			return err
		}
	}
	return nil
}

// page reads a page with all that it spans, and claims these.
func (c *pageChecker) page(id uint64) ([]byte, error) {
	if id >= c.meta.pages {
		return nil, corrupt("is referred to but not in the file", "page %d", id)
	}
	page := make([]byte, c.meta.pageSize)
	if _, err := c.file.ReadAt(page, int64(id)*c.meta.pageSize); err != nil {
		return nil, readError(err, id)
	}
	if own := native.Uint64(page); own != id {
		return nil, corrupt(fmt.Sprintf("says that it is page %d", own), "page %d", id)
	}
	overflow := uint64(native.Uint32(page[12:]))
	if overflow >= c.meta.pages-id {
		return nil, corrupt("spans beyond the end of the file", "page %d", id)
	}
	for i := range overflow + 1 {
		if err := c.claim(id + i); err != nil {
			return nil, err
		}
	}
	if overflow == 0 {
		return page, nil
	}
	page = make([]byte, int64(overflow+1)*c.meta.pageSize)
	if _, err := c.file.ReadAt(page, int64(id)*c.meta.pageSize); err != nil {
		return nil, readError(err, id)
	}
	return page, nil
}

func (c *pageChecker) claim(id uint64) error {
	if id >= c.meta.pages {
		return corrupt("is listed as free but not in the file", "page %d", id)
	}
	if c.seen[id] {
		return corrupt("is in use twice", "page %d", id)
	}
	c.seen[id] = true
	return nil
}

// readError tells damage from a disk that cannot be read.
func readError(err error, id uint64) error {
	if errors.Is(err, io.EOF) {
		return corrupt("is cut off: the file is too short", "page %d", id)
	}
	return err
}

// element is one item of a branch or a leaf.
type element struct {
	key    []byte
	child  uint64 // of a branch
	value  []byte // of a leaf
	bucket bool   // the value is a bucket
}

func parseElements(id uint64, page []byte) ([]element, error) {
	branch := native.Uint16(page[8:]) == flagBranch
	count := int(native.Uint16(page[10:]))
	if pageHeader+count*elementSize > len(page) {
		return nil, corrupt("counts more elements than it can hold", "page %d", id)
	}
	elements := make([]element, count)
	for i := range elements {
		var ok bool
		if elements[i], ok = parseElement(page[pageHeader+i*elementSize:], branch); !ok {
			return nil, corrupt(fmt.Sprintf("has an element %d that reaches beyond it", i), "page %d", id)
		}
	}
	return elements, nil
}

// parseElement reads the element that b begins with; its position counts from
// there too.
func parseElement(b []byte, branch bool) (e element, ok bool) {
	var position, keySize, valueSize uint64
	if branch {
		position, keySize = uint64(native.Uint32(b)), uint64(native.Uint32(b[4:]))
		e.child = native.Uint64(b[8:])
	} else {
		e.bucket = native.Uint32(b)&elementIsBucket != 0
		position, keySize = uint64(native.Uint32(b[4:])), uint64(native.Uint32(b[8:]))
		valueSize = uint64(native.Uint32(b[12:]))
	}
	if position+keySize+valueSize > uint64(len(b)) {
		return element{}, false
	}
	e.key = b[position : position+keySize]
	e.value = b[position+keySize : position+keySize+valueSize]
	return e, true
}

func checkOrder(id uint64, elements []element, low, high []byte) error {
	for i, element := range elements {
		switch {
		case i > 0 && bytes.Compare(elements[i-1].key, element.key) >= 0:
			return corrupt("has keys out of order", "page %d", id)
		case bytes.Compare(element.key, low) < 0, high != nil && bytes.Compare(element.key, high) >= 0:
			return corrupt("has a key that belongs to another page", "page %d", id)
		}
	}
	return nil
}
