package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"grapevine/kv"
)

const (
	// rpcTimeout bounds a call of raft's; a snapshot has that for each 256 KiB.
	rpcTimeout = 10 * time.Second
	// idleConns is how many idle connections raft keeps to each peer: one for
	// heartbeats, one for entries, one for votes.
	idleConns = 3
	// callsInFlight turns pipelining off. With it, raft 1.8.0 stands still for good
	// when a follower refuses entries while the next are being sent: nobody takes the
	// answers any more, so nothing is sent any more, and Shutdown never returns. Our
	// batches wait for each other anyway.
	callsInFlight = 1
)

var (
	errHangs    = errors.New("the disk of this node hangs: nothing is sent in its leader's name")
	errInstance = errors.New("raft is being started anew")
	// errSnapshotTaken is why raft is started anew after a snapshot.
	errSnapshotTaken = errors.New("a snapshot replaced the log")
)

// transport stands between raft and its network transport, and keeps faults of theirs
// away.
//
// Heartbeats go to raft's main loop, as all other calls do. raft would handle them
// at once in the goroutine that read them, beside its main loop and without a lock
// (hashicorp/raft #695: logs diverge). Therefore SetHeartbeatHandler does nothing.
// The price is that a heartbeat may wait behind a sync, so timeouts stay at 1 s.
//
// A snapshot that is not above what was applied is read and acknowledged, and
// raft never sees it: it would go back to it, and lose what came after. One that
// is not above the last entry of the log makes raft be started anew, on the same
// stores: it drops the log, and would go on believing in the last entry that it
// remembers (#697). For this, calls pass one at a time.
//
// When the disk hangs, nothing is sent that tells others of a leader (#503).
//
// Entries are not pipelined, see callsInFlight.
//
// A call names the server that it is for, see streams: raft's own calls do not.
//
// It outlives the instances of raft: each is served by its own forward.
type transport struct {
	*raft.NetworkTransport
	streams *streams
	calls   chan raft.RPC
	watch   *watchdog
	// resolve gives the present address of a server; nil: that of the configuration.
	resolve func(server string) (address string, ok bool)
	log     *slog.Logger
	peers   *peers
}

func newTransport(s *streams, watch *watchdog, resolve func(string) (string, bool), log *slog.Logger) *transport {
	return &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: s, MaxPool: idleConns, MaxRPCsInFlight: callsInFlight, Timeout: rpcTimeout,
			Logger: raftLogger{log: log},
		}),
		streams: s, calls: make(chan raft.RPC), watch: watch, resolve: resolve, log: log, peers: newPeers(),
	}
}

// Consumer is where raft takes its calls from.
func (t *transport) Consumer() <-chan raft.RPC { return t.calls }

// SetHeartbeatHandler does nothing, see transport.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Close does nothing: raft calls it at the end of each instance.
func (t *transport) Close() error { return nil }

// end closes the transport with its connections.
func (t *transport) end() { t.NetworkTransport.Close() }

// cut ends all calls under way, and allows no others until resume.
func (t *transport) cut() { t.streams.cut() }

func (t *transport) resume() {
	t.CloseStreams() // it keeps some that are cut
	t.streams.resume()
}

// forward passes calls to an instance of raft until it ends, or until it has to be
// started anew.
func (t *transport) forward(i *instance) {
	for {
		select {
		case <-i.ending:
			return
		case call := <-t.NetworkTransport.Consumer():
			if !t.pass(i, call) {
				return
			}
		}
	}
}

// pass lets raft answer a call, and waits for it, so that what the next is judged
// by is the state after this one. It reports whether the instance may go on.
func (t *transport) pass(i *instance, call raft.RPC) bool {
	t.peers.heard(raft.ServerID(caller(call.Command)))
	t.follow(call.Command)
	install, isInstall := call.Command.(*raft.InstallSnapshotRequest)
	isThere := false
	if call.Reader != nil {
		call.Reader = newImpatient(call.Reader, t.streams.drop)
	}
	err := checkCall(call.Command)
	if err == nil && isInstall {
		call.Reader, isThere, err = i.peek(call.Reader, install)
	}
	if err != nil {
		t.log.Warn("a call of raft's was refused", "from", caller(call.Command), "err", err)
		drain(call)
		call.Respond(nil, err)
		return true
	}
	if !isInstall {
		t.answer(i, call)
		return true
	}
	if isThere {
		t.acknowledge(call, install)
		return true
	}
	last, err := i.store.LastIndex()
	if err != nil {
		drain(call)
		call.Respond(nil, err)
		return true
	}
	if answer := t.answer(i, call); !installed(answer) || install.LastLogIndex > last {
		return true
	}
	i.restart(fmt.Errorf("%w: it is of entry %d, the log had %d", errSnapshotTaken, install.LastLogIndex, last))
	return false
}

// answer gives a call raft's answer.
func (t *transport) answer(i *instance, call raft.RPC) raft.RPCResponse {
	answer, ok := i.ask(call)
	if !ok {
		drain(call)
		answer = raft.RPCResponse{Error: errInstance}
	}
	call.RespChan <- answer
	return answer
}

// caller is the server id that a call names.
func caller(command any) string {
	if call, ok := command.(raft.WithRPCHeader); ok {
		return string(call.GetRPCHeader().ID)
	}
	return ""
}

// peek looks at the head of a snapshot before raft keeps it, and gives a reader of
// all of it. isThere says that what this node applied contains it. One that is not
// above that, and not contained either, is another cluster's.
func (i *instance) peek(from io.Reader, install *raft.InstallSnapshotRequest) (all io.Reader, isThere bool, err error) {
	prefix := make([]byte, kv.SnapshotPrefixBytes)
	if _, err := io.ReadFull(from, prefix); err != nil {
		return from, false, fmt.Errorf("a snapshot is cut short: %w", err)
	}
	all = io.MultiReader(bytes.NewReader(prefix), from)
	head, err := kv.DecodeSnapshotHead(prefix)
	if err == nil {
		err = checkOurs(i.machine.store, head)
	}
	if err != nil || install.Term < i.raft.CurrentTerm() || install.LastLogIndex > i.raft.AppliedIndex() {
		return all, false, err
	}
	if !isAhead(i.machine.store, head) {
		return all, false, fmt.Errorf("entry %d, where this log is at %d: %w", install.LastLogIndex, i.raft.AppliedIndex(), errForeign)
	}
	return all, true, nil
}

// acknowledge reads a snapshot to its end and says that it was taken. That is
// true: what was applied contains it.
func (t *transport) acknowledge(call raft.RPC, install *raft.InstallSnapshotRequest) {
	t.log.Debug("snapshot is there already", "index", install.LastLogIndex, "from", string(install.ID))
	drain(call)
	call.Respond(&raft.InstallSnapshotResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: install.Term, Success: true,
	}, nil)
}

func drain(call raft.RPC) {
	if call.Reader != nil {
		_, _ = io.Copy(io.Discard, call.Reader) // the connection is closed after an error, as it should
	}
}

func installed(answer raft.RPCResponse) bool {
	response, ok := answer.Response.(*raft.InstallSnapshotResponse)
	return ok && answer.Error == nil && response.Success
}

// checkCall refuses what would make raft panic, which no bytes from the network
// may: entries of unknown types, and configurations that can't be decoded.
func checkCall(command any) error {
	switch c := command.(type) {
	case *raft.InstallSnapshotRequest:
		return checkConfiguration(c.Configuration)
	case *raft.AppendEntriesRequest:
		for n, entry := range c.Entries {
			if entry == nil || entry.Index != c.PrevLogEntry+1+uint64(n) {
				return fmt.Errorf("entry %d after %d is not the next one", n, c.PrevLogEntry)
			}
			if err := checkEntry(entry); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkEntry(entry *raft.Log) error {
	switch entry.Type {
	case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
		return nil
	case raft.LogConfiguration:
		return checkConfiguration(entry.Data)
	}
	return fmt.Errorf("entry %d is of type %d, which this program does not know", entry.Index, entry.Type)
}

func checkConfiguration(encoded []byte) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("a configuration can't be read: %v", reason)
		}
	}()
	raft.DecodeConfiguration(encoded)
	return nil
}

// to is where a call for a server goes: its id, and the address where it is now.
func (t *transport) to(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	if t.resolve != nil {
		if now, ok := t.resolve(string(id)); ok {
			address = raft.ServerAddress(now)
		}
	}
	return addressOf(id, address)
}

// follow leaves the former addresses of a server that asks for votes: it hears of no leader, and
// this one may be waiting for it where it was.
func (t *transport) follow(command any) {
	switch command.(type) {
	case *raft.RequestPreVoteRequest, *raft.RequestVoteRequest:
	default:
		return
	}
	if t.resolve == nil {
		return
	}
	if server := caller(command); server != "" {
		if address, ok := t.resolve(server); ok {
			t.streams.leave(server, address)
		}
	}
}

// TimeoutNow has a server begin an election.
func (t *transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, request *raft.TimeoutNowRequest, response *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, t.to(id, to), request, response)
}

// AppendEntries also notes how far the peer is.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, request *raft.AppendEntriesRequest, response *raft.AppendEntriesResponse) error {
	if t.watch.hangs() {
		return errHangs
	}
	err := t.NetworkTransport.AppendEntries(id, t.to(id, to), request, response)
	if err == nil {
		t.peers.heardLast(id, response.LastLog)
	}
	return err
}

func (t *transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, request *raft.InstallSnapshotRequest, response *raft.InstallSnapshotResponse, data io.Reader) error {
	if t.watch.hangs() {
		return errHangs
	}
	err := t.NetworkTransport.InstallSnapshot(id, t.to(id, to), request, response, data)
	if err == nil {
		t.peers.heard(id)
	}
	return err
}

func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress, request *raft.RequestVoteRequest, response *raft.RequestVoteResponse) error {
	err := t.NetworkTransport.RequestVote(id, t.to(id, to), request, response)
	if err == nil {
		t.peers.heard(id)
	}
	return err
}

func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, request *raft.RequestPreVoteRequest, response *raft.RequestPreVoteResponse) error {
	err := t.NetworkTransport.RequestPreVote(id, t.to(id, to), request, response)
	if err == nil {
		t.peers.heard(id)
	}
	return err
}

// peers knows of each server when it was heard of last, and how long its log was.
type peers struct {
	mu sync.Mutex // guards of
	of map[raft.ServerID]progress
}

type progress struct {
	heard time.Time
	last  uint64 // index of the last entry in its log
}

func newPeers() *peers { return &peers{of: map[raft.ServerID]progress{}} }

func (p *peers) heard(id raft.ServerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.of[id]
	known.heard = time.Now()
	p.of[id] = known
}

func (p *peers) heardLast(id raft.ServerID, last uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[id] = progress{heard: time.Now(), last: last}
}

func (p *peers) get(id raft.ServerID) progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[id]
}
