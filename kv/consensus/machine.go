package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"grapevine/kv"
)

// errSkipped answers an entry that does not follow the store's head: another
// leader's came between. Every node skips it.
var errSkipped = errors.New("another write came between")

// StoppedError says that a node applies no more of raft's log, and from which
// entry on. Its table stays what it is, and it has no part in elections until what
// Err says is over.
type StoppedError struct {
	Index uint64
	Err   error
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("raft log: stopped at entry %d: %v", e.Index, e.Err)
}

func (e *StoppedError) Unwrap() error { return e.Err }

// machine is raft's state machine: it merges the commits in the log's entries
// into the store. It reads neither clock nor chance, and what it decides on is the
// entry and the store's head alone, so that all nodes come to the same state.
//
// An entry is merged if it follows the store's head, by revision and hash. One
// that the store is past is there already, or lost to another: it is skipped, on
// every node and at every replay alike. An entry that can't be read, or a store
// that can't be written, stops the machine: skipping it would diverge.
type machine struct {
	store *kv.Store
	watch *watchdog
	// durable says that the entries are on this node's disk already, in raft's log:
	// what is merged need not wait for the store's file.
	durable bool
	// failed is told why the machine stopped, once.
	failed func(error)

	mu      sync.Mutex // guards all below
	stopped error
	applied uint64        // entries up to here were looked at
	moved   chan struct{} // closed when applied grows, or the machine stops
	// config is the configuration that was committed last, with its index.
	config      raft.Configuration
	configIndex uint64
}

func newMachine(store *kv.Store, durable bool, watch *watchdog, failed func(error)) *machine {
	return &machine{store: store, durable: durable, watch: watch, failed: failed, moved: make(chan struct{})}
}

// Apply is ApplyBatch of one entry.
func (m *machine) Apply(entry *raft.Log) any { return m.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch looks at entries in their order, and merges at once those that
// follow. Its answers are errors, nil for what is in the store.
func (m *machine) ApplyBatch(entries []*raft.Log) []any {
	defer m.watch.enter()()
	b := &batch{machine: m, entries: entries, answers: make([]any, len(entries)), head: m.store.View().Head()}
	b.apply()
	m.advance(entries[len(entries)-1].Index)
	return b.answers
}

// batch is the entries that raft gives at once.
type batch struct {
	*machine
	entries []*raft.Log
	answers []any
	// head is where the store will stand after run, the commits that are to be
	// merged, of the entries runAt.
	head  kv.Head
	run   []kv.Commit
	runAt []int
}

func (b *batch) apply() {
	for i, entry := range b.entries {
		if err := b.isStopped(); err != nil {
			b.answers[i] = err
			continue
		}
		if entry.Type == raft.LogConfiguration {
			b.noteConfiguration(entry)
			continue
		}
		commit, err := decodeEntry(entry.Data)
		if err != nil {
			b.merge()
			b.answers[i] = b.stop(entry.Index, fmt.Errorf("it %w", err))
			continue
		}
		b.add(i, commit)
	}
	b.merge()
}

// add takes a commit into the run if it follows.
func (b *batch) add(i int, c kv.Commit) {
	if !follows(b.head, c) {
		b.answers[i] = errSkipped
		return
	}
	c.Index = b.entries[i].Index
	b.head.Rev, b.head.Hash = c.Rev, c.Hash
	b.run, b.runAt = append(b.run, c), append(b.runAt, i)
}

func follows(head kv.Head, c kv.Commit) bool {
	return c.Rev == head.Rev.Next() && c.Prev == head.Hash
}

// merge merges the run in one transaction, or, if one of its commits is not
// sound, one by one.
func (b *batch) merge() {
	if len(b.run) == 0 {
		return
	}
	err := b.mergeInto(b.run...)
	switch {
	case err == nil:
	case !isUnsound(err):
		err = b.stop(b.entries[b.runAt[0]].Index, err)
		b.answer(b.runAt, err)
	case len(b.run) == 1:
		b.answer(b.runAt, err)
	default:
		b.mergeEach()
	}
	b.run, b.runAt = nil, nil
	b.head = b.store.View().Head()
}

// mergeInto puts commits into the store. With a durable log readers see them before
// the store's file has them: after a crash raft applies them again. If the file can't
// be written later, the machine stops then. A node that is the only voter waits for
// the file: after a crash nobody else has what it has acknowledged, and it answers
// from its file before its log is read.
func (m *machine) mergeInto(commits ...kv.Commit) error {
	if !m.durable || m.alone() {
		return m.store.Merge(commits...)
	}
	first := commits[0].Index
	return m.store.MergeSoon(kv.Soon{Failed: func(err error) { _ = m.stop(first, err) }}, commits...)
}

// alone tells whether there is no other voter, as far as is known.
func (m *machine) alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(voterIDs(m.config.Servers)) < 2
}

func (b *batch) mergeEach() {
	for i, c := range b.run {
		at := b.runAt[i]
		if !follows(b.store.View().Head(), c) {
			b.answers[at] = errSkipped
			continue
		}
		err := b.mergeInto(c)
		if err != nil && !isUnsound(err) {
			b.answer(b.runAt[i:], b.stop(b.entries[at].Index, err))
			return
		}
		if err != nil {
			b.answers[at] = err
		}
	}
}

func (b *batch) answer(at []int, err error) {
	for _, i := range at {
		b.answers[i] = err
	}
}

// isUnsound tells an error that every store gives for a commit from one of this
// node's disk.
func isUnsound(err error) bool {
	var key *kv.KeyError
	var limit *kv.LimitError
	return errors.Is(err, kv.ErrDamaged) || errors.As(err, &key) || errors.As(err, &limit)
}

func (m *machine) isStopped() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped
}

// stop ends applying and returns why.
func (m *machine) stop(index uint64, err error) error {
	err = &StoppedError{Index: index, Err: err}
	m.mu.Lock()
	m.stopped = err
	m.wake()
	m.mu.Unlock()
	m.failed(err)
	return err
}

func (m *machine) noteConfiguration(entry *raft.Log) {
	m.setConfiguration(raft.DecodeConfiguration(entry.Data), entry.Index)
}

func (m *machine) setConfiguration(c raft.Configuration, index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if index >= m.configIndex {
		m.config, m.configIndex = c, index
	}
}

// configuration is the one that was committed last, as far as this node knows.
func (m *machine) configuration() (raft.Configuration, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config.Clone(), m.configIndex
}

// advance notes that entries up to index have been looked at.
func (m *machine) advance(index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if index > m.applied {
		m.applied = index
		m.wake()
	}
}

// wake is for holders of mu.
func (m *machine) wake() {
	close(m.moved)
	m.moved = make(chan struct{})
}

// wait waits until entries up to index have been looked at.
func (m *machine) wait(ctx context.Context, index uint64) error {
	for {
		m.mu.Lock()
		applied, moved, stopped := m.applied, m.moved, m.stopped
		m.mu.Unlock()
		if stopped != nil || applied >= index {
			return stopped
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Snapshot takes the store as it is. A machine that stopped has none: raft would
// file it under an entry that the store has not seen.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if err := m.isStopped(); err != nil {
		return nil, err
	}
	return snapshot{m.store.Snapshot()}, nil
}

// snapshot writes a kv.Snapshot to where raft says.
type snapshot struct{ *kv.Snapshot }

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := s.WriteTo(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (s snapshot) Release() {}

// Restore puts a snapshot in the store's place.
func (m *machine) Restore(from io.ReadCloser) error {
	defer m.watch.enter()()
	s, err := kv.ReadSnapshot(from)
	if err != nil {
		return err
	}
	return restore(m.store, s)
}

// errForeign refuses another cluster's state.
var errForeign = errors.New("it is the state of another cluster, or of an older epoch")

// checkOurs refuses a head that no leader of this store's cluster can have: of
// another epoch that is not a later one. A store that nothing was written to takes
// any.
func checkOurs(store *kv.Store, head kv.Head) error {
	have := store.View().Head()
	if have.Rev.Rev == 0 || have.EpochID == head.EpochID || head.Rev.Epoch > have.Rev.Epoch {
		return nil
	}
	return fmt.Errorf("revision %s of epoch %x, where the store is at %s of %x: %w",
		head.Rev, head.EpochID[:4], have.Rev, have.EpochID[:4], errForeign)
}

// restore puts a snapshot in the store's place, unless the store is ahead of it
// in the same history, as that of a node which pulled before it joined raft.
func restore(store *kv.Store, s *kv.Snapshot) error {
	if isAhead(store, s.Head()) {
		return nil
	}
	if err := checkOurs(store, s.Head()); err != nil {
		return err
	}
	return store.Restore(s)
}

// isAhead reports whether the store's history passes through head.
func isAhead(store *kv.Store, head kv.Head) bool {
	have := store.View().Head()
	if have.EpochID != head.EpochID || have.Rev.Compare(head.Rev) < 0 {
		return false
	}
	past, err := store.At(head.Rev)
	if err != nil {
		return errors.Is(err, kv.ErrCompacted)
	}
	return past.Head().Hash == head.Hash
}
