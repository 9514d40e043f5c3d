package consensus

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

const (
	// snapshotsFolder is where snapshots are, in the folder of a node.
	snapshotsFolder = "snapshots"
	snapshotSuffix  = ".snap"
	draftSuffix     = ".draft"
	// keptSnapshots: the newest, and the one before in case a leader is sending it.
	keptSnapshots = 2

	// maxConfigurationBytes bounds what is read as a configuration: some hundred
	// servers, where there are at most about ten.
	maxConfigurationBytes = 64 << 10
)

// snapshotMagic begins a snapshot's file; the last byte is the version.
var snapshotMagic = [8]byte{'g', 'v', 's', 'n', 'a', 'p', 0, 1}

// fixedHead is the size of a head without the configuration.
const fixedHead = 8 + 8 + 8 + 8 + 8 + 4 + 4

// fileSnapshots keeps raft's snapshots as files. One appears under its name when
// it is complete and synced, so that what is there is whole. Its form, numbers
// big-endian:
//
//	magic                8 bytes
//	index                8 bytes
//	term                 8 bytes
//	configuration index  8 bytes
//	size of the content  8 bytes
//	crc of the content   4 bytes, CRC-32C
//	configuration        4 bytes length, then raft's encoding of it
//	crc of the head      4 bytes, CRC-32C over all before
//	content              as kv.Snapshot writes it
type fileSnapshots struct{ dir string }

// openSnapshots opens the snapshots in a node's folder and removes what was never
// completed.
func openSnapshots(dir string) (*fileSnapshots, error) {
	s := &fileSnapshots{dir: filepath.Join(dir, snapshotsFolder)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("raft snapshots: %w", err)
	}
	drafts, err := filepath.Glob(filepath.Join(s.dir, "*"+draftSuffix))
	if err != nil {
		return nil, fmt.Errorf("raft snapshots: %w", err)
	}
	for _, draft := range drafts {
		if err := os.Remove(draft); err != nil {
			return nil, fmt.Errorf("raft snapshots: %w", err)
		}
	}
	return s, nil
}

func newMeta(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%020d-%020d", index, term), Index: index, Term: term,
		Configuration: configuration, ConfigurationIndex: configurationIndex,
	}
}

func noSnapshot(id string) error { return fmt.Errorf("raft snapshot %s: %w", id, fs.ErrNotExist) }

// Create begins a snapshot. Nothing of it is seen before the sink is closed.
func (s *fileSnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	meta := newMeta(version, index, term, configuration, configurationIndex)
	file, err := os.CreateTemp(s.dir, meta.ID+"-*"+draftSuffix)
	if err != nil {
		return nil, fmt.Errorf("raft snapshot %s: %w", meta.ID, err)
	}
	sink := &fileSink{store: s, meta: meta, file: file, out: bufio.NewWriterSize(file, 256<<10), sum: crc32.New(castagnoli)}
	if _, err := sink.out.Write(encodeHead(meta, 0)); err != nil { // its place: it is written anew at the end
		return nil, errors.Join(err, sink.Cancel())
	}
	return sink, nil
}

// List gives the snapshots, newest first. Files that are not snapshots, or
// damaged in their heads, are left out.
func (s *fileSnapshots) List() ([]*raft.SnapshotMeta, error) {
	names, err := filepath.Glob(filepath.Join(s.dir, "*"+snapshotSuffix))
	if err != nil {
		return nil, fmt.Errorf("raft snapshots: %w", err)
	}
	var metas []*raft.SnapshotMeta
	for _, name := range names {
		meta, file, _, err := openHead(name)
		if err != nil {
			continue
		}
		file.Close()
		metas = append(metas, meta)
	}
	slices.SortFunc(metas, func(a, b *raft.SnapshotMeta) int {
		return cmp.Or(cmp.Compare(b.Index, a.Index), cmp.Compare(b.Term, a.Term))
	})
	return metas, nil
}

// Open reads a snapshot once against its checksum and then gives it to be read.
func (s *fileSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if strings.ContainsAny(id, `/\`) {
		return nil, nil, noSnapshot(id)
	}
	meta, file, sum, err := openHead(s.path(id))
	if err != nil {
		return nil, nil, err
	}
	start, err := file.Seek(0, io.SeekCurrent)
	if err == nil {
		err = checkContent(file, meta.Size, sum)
	}
	if err == nil {
		_, err = file.Seek(start, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("raft snapshot %s: %w", id, err), file.Close())
	}
	return meta, file, nil
}

func (s *fileSnapshots) path(id string) string { return filepath.Join(s.dir, id+snapshotSuffix) }

// reap removes all but the newest.
func (s *fileSnapshots) reap() error {
	metas, err := s.List()
	if err != nil || len(metas) <= keptSnapshots {
		return err
	}
	for _, meta := range metas[keptSnapshots:] {
		if err := os.Remove(s.path(meta.ID)); err != nil {
			return fmt.Errorf("raft snapshot %s: %w", meta.ID, err)
		}
	}
	return nil
}

// openHead opens a snapshot's file and reads its head.
func openHead(path string) (*raft.SnapshotMeta, *os.File, uint32, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("raft snapshot: %w", err)
	}
	meta, sum, err := readHead(file)
	if err != nil {
		return nil, nil, 0, errors.Join(fmt.Errorf("raft snapshot %s: %w", path, err), file.Close())
	}
	return meta, file, sum, nil
}

func encodeHead(meta *raft.SnapshotMeta, sum uint32) []byte {
	b := slices.Clone(snapshotMagic[:])
	for _, n := range []uint64{meta.Index, meta.Term, meta.ConfigurationIndex, uint64(meta.Size)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, sum)
	configuration := raft.EncodeConfiguration(meta.Configuration)
	b = binary.BigEndian.AppendUint32(b, uint32(len(configuration)))
	b = append(b, configuration...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readHead reads a head and leaves the reader at the content.
func readHead(r io.Reader) (*raft.SnapshotMeta, uint32, error) {
	head := make([]byte, fixedHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, 0, fmt.Errorf("its head is cut short: %w", err)
	}
	if [8]byte(head) != snapshotMagic {
		return nil, 0, errors.New("it is no snapshot of this version")
	}
	n := binary.BigEndian.Uint32(head[fixedHead-4:])
	if n > maxConfigurationBytes {
		return nil, 0, fmt.Errorf("its configuration has %d bytes, at most %d are read", n, maxConfigurationBytes)
	}
	rest := make([]byte, n+4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, 0, fmt.Errorf("its head is cut short: %w", err)
	}
	head = append(head, rest[:n]...)
	if binary.BigEndian.Uint32(rest[n:]) != crc32.Checksum(head, castagnoli) {
		return nil, 0, errors.New("its head does not match its checksum")
	}
	number := func(at int) uint64 { return binary.BigEndian.Uint64(head[at:]) }
	meta := newMeta(raft.SnapshotVersionMax, number(8), number(16), raft.DecodeConfiguration(rest[:n]), number(24))
	meta.Size = int64(number(32))
	return meta, binary.BigEndian.Uint32(head[40:]), nil
}

func checkContent(r io.Reader, size int64, sum uint32) error {
	h := crc32.New(castagnoli)
	n, err := io.Copy(h, r)
	if err != nil {
		return err
	}
	if n != size || h.Sum32() != sum {
		return fmt.Errorf("its content does not match its checksum (%d of %d bytes)", n, size)
	}
	return nil
}

// fileSink is a snapshot that is being written.
type fileSink struct {
	store *fileSnapshots
	meta  *raft.SnapshotMeta
	file  *os.File
	out   *bufio.Writer
	sum   hash.Hash32
	done  bool
}

func (s *fileSink) ID() string { return s.meta.ID }

func (s *fileSink) Write(b []byte) (int, error) {
	n, err := s.out.Write(b)
	s.sum.Write(b[:n])
	s.meta.Size += int64(n)
	return n, err
}

// Close completes the snapshot: it is synced, under its name, when Close returns.
// After a failure nothing of it is left.
func (s *fileSink) Close() error {
	if s.done {
		return nil
	}
	if err := s.complete(); err != nil {
		return errors.Join(fmt.Errorf("raft snapshot %s: %w", s.meta.ID, err), s.Cancel())
	}
	s.done = true
	return s.store.reap()
}

func (s *fileSink) complete() error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(encodeHead(s.meta, s.sum.Sum32()), 0); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(s.file.Name(), s.store.path(s.meta.ID)); err != nil {
		return err
	}
	if err := syncFolder(s.store.dir); err != nil {
		return err
	}
	return s.file.Close()
}

// Cancel drops the snapshot.
func (s *fileSink) Cancel() error {
	if s.done {
		return nil
	}
	s.done = true
	err := os.Remove(s.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(s.file.Close(), err)
}
