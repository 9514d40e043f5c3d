package consensus

import (
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"grapevine/kv"
)

// Home is raft's stores, which a test may keep over restarts.
type Home = home

// NewMemoryHome returns stores in memory that lose nothing.
func NewMemoryHome() *Home {
	return &home{backend: &faulty{backend: newMemoryLog()}, snapshots: &memorySnapshots{}}
}

// OpenOn is Open on stores that outlive the Raft.
func OpenOn(o Options, h *Home) (*Raft, error) {
	o.home = h
	return Open(o)
}

// Fault is asked before every write to a log; it may take its time, or fail the
// write.
type Fault func(write string) error

// SetFault plants a fault in a home from NewMemoryHome; nil takes it out.
func (h *home) SetFault(f Fault) { h.backend.(*faulty).fault.Store(&f) }

// faulty is a backend whose writes fail as a test wants.
type faulty struct {
	backend
	fault atomic.Pointer[Fault]
}

func (f *faulty) ask(write string) error {
	if fault := f.fault.Load(); fault != nil && *fault != nil {
		return (*fault)(write)
	}
	return nil
}

func (f *faulty) StoreLogs(entries []*raft.Log) error {
	if err := f.ask("entries"); err != nil {
		return err
	}
	return f.backend.StoreLogs(entries)
}

func (f *faulty) StoreLog(entry *raft.Log) error { return f.StoreLogs([]*raft.Log{entry}) }

func (f *faulty) SetUint64(name []byte, value uint64) error {
	if err := f.ask(string(name)); err != nil {
		return err
	}
	return f.backend.SetUint64(name, value)
}

// ForgetRequests plants a fault: a leader no longer recognises a request that was
// done.
func (r *Raft) ForgetRequests() {
	r.known = func(string) (kv.Result, bool) { return kv.Result{}, false }
}

// LocalView is what the node's store holds, asked of nobody.
func (r *Raft) LocalView() kv.View { return r.o.Store.View() }

// Term is raft's.
func (r *Raft) Term() uint64 { return r.instance().raft.CurrentTerm() }

// LastIndex is that of raft's log.
func (r *Raft) LastIndex() uint64 { return r.instance().raft.LastIndex() }

// TakeSnapshot makes raft take a snapshot and compact its log.
func (r *Raft) TakeSnapshot() error { return r.instance().raft.Snapshot().Error() }

// Instances tells instances apart.
func (r *Raft) Instance() any { return r.instance() }

// Append puts an entry into raft's log, as a leader's that nobody else has.
func (h *home) Append(index, term uint64) error {
	return h.backend.StoreLog(&raft.Log{Index: index, Term: term, Type: raft.LogNoop})
}

// Last is the last index of a home's log.
func (h *home) Last() uint64 {
	last, _ := h.backend.LastIndex()
	return last
}

// FirstOf is the first index of a home's log.
func (h *home) First() uint64 {
	first, _ := h.backend.FirstIndex()
	return first
}

// SendSnapshot sends a node's newest snapshot to another, as a leader does.
func (r *Raft) SendSnapshot(to, address string) (installed bool, err error) {
	metas, err := r.home.snapshots.List()
	if err != nil {
		return false, err
	}
	meta, content, err := r.home.snapshots.Open(metas[0].ID)
	if err != nil {
		return false, err
	}
	defer content.Close()
	request := &raft.InstallSnapshotRequest{
		RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(r.server()), Addr: []byte(r.o.Address)},
		SnapshotVersion: meta.Version, Term: r.Term(), Leader: []byte(r.o.Address), LastLogIndex: meta.Index, LastLogTerm: meta.Term,
		Size: meta.Size, Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex,
	}
	var response raft.InstallSnapshotResponse
	err = r.transport.InstallSnapshot(raft.ServerID(to), raft.ServerAddress(address), request, &response, content)
	return response.Success, err
}

// SendSilentSnapshot begins to send a snapshot, and sends none of it until stop.
func (r *Raft) SendSilentSnapshot(to, address string, stop <-chan struct{}) {
	request := &raft.InstallSnapshotRequest{
		RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(r.server()), Addr: []byte(r.o.Address)},
		SnapshotVersion: raft.SnapshotVersionMax, Term: r.Term(), Size: 1 << 20, Configuration: raft.EncodeConfiguration(raft.Configuration{}),
	}
	var response raft.InstallSnapshotResponse
	_ = r.transport.InstallSnapshot(raft.ServerID(to), raft.ServerAddress(address), request, &response, silence(stop))
}

// silence is a reader that gives nothing until it is closed.
type silence <-chan struct{}

func (s silence) Read([]byte) (int, error) {
	<-s
	return 0, io.EOF
}

// ApplyRaw has raft commit an entry as it is.
func (r *Raft) ApplyRaw(data []byte) error { return r.instance().raft.Apply(data, 0).Error() }
