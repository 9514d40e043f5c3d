package consensus

import (
	"bytes"
	"io"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// memoryLog is raft's log and votes of a node that keeps nothing.
type memoryLog struct {
	mu     sync.RWMutex // guards all below
	first  uint64       // index of entries[0]
	logs   []raft.Log
	stable map[string][]byte
}

func newMemoryLog() *memoryLog { return &memoryLog{stable: map[string][]byte{}} }

func (m *memoryLog) close() error { return nil }

func (m *memoryLog) FirstIndex() (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.logs) == 0 {
		return 0, nil
	}
	return m.first, nil
}

func (m *memoryLog) LastIndex() (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.last(), nil
}

// last is for holders of mu.
func (m *memoryLog) last() uint64 {
	if len(m.logs) == 0 {
		return 0
	}
	return m.logs[len(m.logs)-1].Index
}

func (m *memoryLog) GetLog(index uint64, entry *raft.Log) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.logs) == 0 || index < m.first || index > m.last() {
		return raft.ErrLogNotFound
	}
	*entry = m.logs[index-m.first]
	return nil
}

func (m *memoryLog) StoreLog(entry *raft.Log) error { return m.StoreLogs([]*raft.Log{entry}) }

func (m *memoryLog) StoreLogs(entries []*raft.Log) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := checkFollows(m.last(), entries); err != nil {
		return err
	}
	for _, entry := range entries {
		if len(m.logs) == 0 {
			m.first = entry.Index
		}
		m.logs = append(m.logs, *entry)
	}
	return nil
}

func (m *memoryLog) DeleteRange(low, high uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	low, high = max(low, m.first), min(high, m.last())
	if len(m.logs) == 0 || low > high {
		return nil
	}
	if low == m.first {
		m.logs = slices.Clone(m.logs[high-low+1:])
		m.first = high + 1
		return nil
	}
	m.logs = m.logs[:low-m.first]
	return nil
}

func (m *memoryLog) Set(name, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stable[string(name)] = bytes.Clone(value)
	return nil
}

func (m *memoryLog) Get(name []byte) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	value, there := m.stable[string(name)]
	if !there {
		return nil, errNotFound
	}
	return bytes.Clone(value), nil
}

func (m *memoryLog) SetUint64(name []byte, value uint64) error { return m.Set(name, indexKey(value)) }

func (m *memoryLog) GetUint64(name []byte) (uint64, error) {
	value, err := m.Get(name)
	if err != nil {
		return 0, err
	}
	return parseIndex(name, value)
}

// memorySnapshots keeps the newest snapshot of a node that keeps nothing.
type memorySnapshots struct {
	mu      sync.Mutex // guards meta and content
	meta    *raft.SnapshotMeta
	content []byte
}

func (m *memorySnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &memorySink{store: m, meta: newMeta(version, index, term, configuration, configurationIndex)}, nil
}

func (m *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.meta == nil {
		return nil, nil
	}
	meta := *m.meta
	return []*raft.SnapshotMeta{&meta}, nil
}

func (m *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.meta == nil || m.meta.ID != id {
		return nil, nil, noSnapshot(id)
	}
	meta := *m.meta
	return &meta, io.NopCloser(bytes.NewReader(m.content)), nil
}

// memorySink becomes the newest snapshot when it is closed.
type memorySink struct {
	store *memorySnapshots
	meta  *raft.SnapshotMeta
	buf   bytes.Buffer
	done  bool
}

func (s *memorySink) ID() string { return s.meta.ID }

func (s *memorySink) Write(b []byte) (int, error) { return s.buf.Write(b) }

func (s *memorySink) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	s.meta.Size = int64(s.buf.Len())
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.meta == nil || s.meta.Index >= s.store.meta.Index {
		s.store.meta, s.store.content = s.meta, s.buf.Bytes()
	}
	return nil
}

func (s *memorySink) Cancel() error {
	s.done = true
	return nil
}
