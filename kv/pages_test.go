package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// image is a file in memory, to be damaged at a chosen place.
type image struct {
	t    *testing.T
	data []byte
	meta metaPage
}

// page is a page with all that it spans.
func (m image) page(id uint64) []byte {
	page := m.data[id*testPage:]
	return page[:testPage*(1+native.Uint32(page[12:]))]
}

// newest and oldest are the ids of the meta pages.
func (m image) newest() uint64 { return m.meta.transaction % 2 }
func (m image) oldest() uint64 { return 1 - m.newest() }

// bucket returns the root page of a bucket, and where the root of all points to it.
func (m image) bucket(name []byte) (root uint64, pointer []byte) {
	m.t.Helper()
	elements, err := parseElements(m.meta.root, m.page(m.meta.root))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, e := range elements {
		if bytes.Equal(e.key, name) && native.Uint64(e.value) != 0 {
			return native.Uint64(e.value), e.value
		}
	}
	m.t.Fatalf("bucket %q has no page of its own", name)
	return 0, nil
}

// branch is the root page of the entries, which must be a branch.
func (m image) branch() (id uint64, page []byte, elements []element) {
	m.t.Helper()
	id, _ = m.bucket(bucketEntries)
	page = m.page(id)
	elements, err := parseElements(id, page)
	if err != nil || native.Uint16(page[8:]) != flagBranch {
		m.t.Fatalf("the root of the entries is no branch: %v", err)
	}
	return id, page, elements
}

// setChild makes the i-th element of a branch point elsewhere.
func setChild(page []byte, i int, child uint64) {
	native.PutUint64(page[pageHeader+i*elementSize+8:], child)
}

// firstLeaf is the first page of a bucket's tree.
func (m image) firstLeaf(name []byte) []byte {
	m.t.Helper()
	id, _ := m.bucket(name)
	for native.Uint16(m.page(id)[8:]) == flagBranch {
		id = native.Uint64(m.page(id)[pageHeader+8:])
	}
	return m.page(id)
}

// lastLeaf is the last page of a bucket's tree.
func (m image) lastLeaf(name []byte) []byte {
	m.t.Helper()
	id, _ := m.bucket(name)
	for native.Uint16(m.page(id)[8:]) == flagBranch {
		elements, err := parseElements(id, m.page(id))
		if err != nil {
			m.t.Fatal(err)
		}
		id = elements[len(elements)-1].child
	}
	return m.page(id)
}

func (m image) freelist() []byte { return m.page(m.meta.freelist) }

// Damage that bbolt would follow for ever, crash on, or take for good is found
// before it can.
func TestChosenDamage(t *testing.T) {
	sound, want := filled(t)
	for _, tt := range []struct {
		name   string
		damage func(m image)
		want   string
	}{
		{"newest meta page", func(m image) { m.page(m.newest())[pageHeader+48]++ }, "checksum"},
		{"older meta page", func(m image) { m.page(m.oldest())[pageHeader+48]++ }, "checksum"},
		{"meta page of another file", func(m image) { m.page(0)[pageHeader]++ }, "not that of a store"},
		{"a circle", func(m image) { id, page, _ := m.branch(); setChild(page, 1, id) }, "in use twice"},
		{"one leaf twice", func(m image) { _, page, e := m.branch(); setChild(page, 1, e[0].child) }, "in use twice"},
		{"two leaves swapped", func(m image) {
			_, page, e := m.branch()
			setChild(page, 0, e[1].child)
			setChild(page, 1, e[0].child)
		}, "belongs to another page"},
		{"a child far away", func(m image) { _, page, _ := m.branch(); setChild(page, 0, 1<<40) }, "not in the file"},
		{"a child that is the freelist", func(m image) { _, page, _ := m.branch(); setChild(page, 0, m.meta.freelist) }, "of no tree"},
		{"a branch to nothing", func(m image) { _, page, _ := m.branch(); native.PutUint16(page[10:], 0) }, "a branch to nothing"},
		{"a branch that lost a leaf", func(m image) { _, page, e := m.branch(); native.PutUint16(page[10:], uint16(len(e)-1)) }, "neither in use nor free"},
		{"a page that says it is another", func(m image) { id, page, _ := m.branch(); native.PutUint64(page, id+1) }, "says that it is page"},
		{"a page without end", func(m image) { native.PutUint32(m.firstLeaf(bucketEntries)[12:], 1<<31) }, "beyond the end"},
		{"too many elements", func(m image) { native.PutUint16(m.firstLeaf(bucketEntries)[10:], 0xFFFF) }, "more elements than it can hold"},
		{"a key beyond the page", func(m image) { native.PutUint32(m.firstLeaf(bucketEntries)[pageHeader+8:], 1<<30) }, "reaches beyond it"},
		{"a value beyond the page", func(m image) { native.PutUint32(m.firstLeaf(bucketEntries)[pageHeader+12:], 1<<30) }, "reaches beyond it"},
		{"keys out of order", func(m image) {
			leaf := m.firstLeaf(bucketEntries)
			elements, _ := parseElements(0, leaf)
			copy(elements[1].key, "aaa")
		}, "out of order"},
		{"a key below its page", func(m image) {
			_, _, e := m.branch()
			elements, _ := parseElements(0, m.page(e[1].child))
			elements[0].key[0] = '!'
		}, "belongs to another page"},
		{"a key above its page", func(m image) {
			elements, _ := parseElements(0, m.firstLeaf(bucketEntries))
			elements[len(elements)-1].key[0] = 'z'
		}, "belongs to another page"},
		{"a free page in use", func(m image) {
			id, _, _ := m.branch()
			native.PutUint64(m.freelist()[pageHeader:], id)
		}, "in use twice"},
		{"a free page far away", func(m image) { native.PutUint64(m.freelist()[pageHeader:], 1<<40) }, "not in the file"},
		{"a freelist without end", func(m image) { native.PutUint16(m.freelist()[10:], 0xFFFE) }, "more free pages than it can hold"},
		{"a freelist without end, long form", func(m image) {
			native.PutUint16(m.freelist()[10:], longFreelist)
			native.PutUint64(m.freelist()[pageHeader:], 1<<62)
		}, "more free pages than it can hold"},
		{"a freelist that is a leaf", func(m image) { native.PutUint16(m.freelist()[8:], flagLeaf) }, "not the freelist"},
		{"a bucket that became inline", func(m image) { _, pointer := m.bucket(bucketEntries); clear(pointer[:8]) }, "inline bucket"},
		{"a bucket renamed", func(m image) {
			elements, _ := parseElements(0, m.page(m.meta.root))
			elements[0].key[0] = '0'
		}, "is missing"},

		// From here on the structure is sound, and bbolt would open the file.
		{"a value changed", func(m image) {
			elements, _ := parseElements(0, m.firstLeaf(bucketEntries))
			elements[0].value[len(elements[0].value)-6]++
		}, "does not match its checksum"},
		{"entries emptied", func(m image) { native.PutUint16(m.firstLeaf(bucketEntries)[10:], 0) }, "the entries are not those of revision 1.200"},
		{"history emptied", func(m image) { native.PutUint16(m.firstLeaf(bucketHistory)[10:], 0) }, "the history"},
		{"newest history emptied", func(m image) { native.PutUint16(m.lastLeaf(bucketHistory)[10:], 0) }, "the history ends at revision 1.1"},
		{"local values emptied", func(m image) { native.PutUint16(m.firstLeaf(bucketLocal)[10:], 0) }, "the local values"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := bytes.Clone(sound)
			meta, err := newestMeta(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			tt.damage(image{t, data, meta})
			path := filepath.Join(t.TempDir(), "kv.db")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(Options{Path: path})
			if err == nil {
				defer s.Close()
				t.Fatalf("opened, equal: %v", everythingIn(t, s).equal(want))
			}
			checkRefusal(t, tt.name, err, path, data)
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
		})
	}
}

// A record that is sound and old is not taken for the newest.
func TestRecordFromThePast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path})
	put(t, s, "a", []byte("old"))
	old := encodeEntry(*s.View().find("a"))
	put(t, s, "a", []byte("new"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rewrite(t, path, func(tx *bolt.Tx) error { return tx.Bucket(bucketEntries).Put([]byte("a"), old) })
	var damage *CorruptError
	if _, err := Open(Options{Path: path}); !errors.As(err, &damage) || damage.What != "the entries" {
		t.Errorf("got %v; want the entries to be refused", err)
	}
}

// A file of a later version is refused and not misread.
func TestNewerRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	if err := openStore(t, Options{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	content := []byte{ledgerVersion + 1, 'x'}
	record := binary.BigEndian.AppendUint32(content, checksum(ledgerName, content))
	rewrite(t, path, func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(ledgerName, record) })
	if _, err := Open(Options{Path: path}); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("got %v; want a word on the version", err)
	}
}

func rewrite(t testing.TB, path string, change func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// The checker takes any bytes: it gives an error or none, and never ends the
// process. Noise is laid over a sound file of a few pages.
func FuzzCheckPages(f *testing.F) {
	path := filepath.Join(f.TempDir(), "kv.db")
	if err := fillFile(path); err != nil {
		f.Fatal(err)
	}
	rewrite(f, path, func(tx *bolt.Tx) (err error) {
		for i := 0; i < 60 && err == nil; i++ {
			err = tx.Bucket(bucketEntries).Put(fmt.Append(nil, i), make([]byte, 300))
		}
		return err
	})
	sound, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	for page := range len(sound) / testPage {
		f.Add(uint16(page*testPage), sound[page*testPage:][:pageHeader+elementSize])
	}
	f.Fuzz(func(_ *testing.T, at uint16, noise []byte) {
		damaged := bytes.Clone(sound)
		copy(damaged[min(int(at), len(damaged)):], noise)
		checkImage(bytes.NewReader(damaged), int64(len(damaged)))
	})
}
