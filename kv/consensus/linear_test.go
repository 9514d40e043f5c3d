package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

// The history of a run: 8 clients, keys in pairs, of which each operation touches
// one. porcupine checks each pair by itself.
const (
	clients    = 8
	operations = 2000
	pairs      = 5
	patience   = 8 * time.Second // of a client with one operation
)

type opKind int

const (
	opSet opKind = iota
	opCas
	opTxn
	opGet
)

// operation is what a client asked of a pair: it looks at side, and writes.
type operation struct {
	kind   opKind
	pair   int
	side   int    // which key of the pair
	expect string // of a cas or a txn: the value that side must have
	value  string
}

// outcome is what it was told.
type reply struct {
	unknown   bool
	succeeded bool
	values    [2]string // of a get
}

// model is a pair of registers. A txn whose compare holds writes both, and only
// the other if not. What is not known may have happened at any time after it was
// asked, or at the end of time.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, pairs)
		for _, op := range history {
			pair := op.Input.(operation).pair
			parts[pair] = append(parts[pair], op)
		}
		return parts
	},
	Init: func() any { return [2]string{} },
	Step: func(state, input, output any) (bool, any) {
		values, in, out := state.([2]string), input.(operation), output.(reply)
		holds := values[in.side] == in.expect
		switch in.kind {
		case opGet:
			return out.unknown || out.values == values, values
		case opSet:
			values[in.side] = in.value
			return true, values
		case opCas:
			if holds {
				values[in.side] = in.value
			}
		case opTxn:
			values[1-in.side] = in.value
			if holds {
				values[in.side] = in.value
			}
		}
		return out.unknown || out.succeeded == holds, values
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

func (o operation) key(side int) kv.Key { return kv.Key(fmt.Sprintf("pair/%d/%d", o.pair, side)) }

func (o operation) txn() kv.Txn {
	here, there := kv.Put(o.key(o.side), []byte(o.value)), kv.Put(o.key(1-o.side), []byte(o.value))
	expect := []kv.Compare{{Key: o.key(o.side), Target: kv.TargetValue, Value: []byte(o.expect)}}
	if o.expect == "" {
		expect[0] = kv.Compare{Key: o.key(o.side), Target: kv.TargetAbsent}
	}
	switch o.kind {
	case opCas:
		return kv.Txn{Compare: expect, Then: []kv.Op{here}}
	case opTxn:
		return kv.Txn{Compare: expect, Then: []kv.Op{here, there}, Else: []kv.Op{there}}
	}
	return kv.Txn{Then: []kv.Op{here}}
}

// trialRun is a run of clients against a cluster with faults.
type trialRun struct {
	*cluster
	seed uint64
	// localReads plants a fault: a read is answered by whatever node is asked.
	localReads bool
	clock      atomic.Int64

	mu      sync.Mutex // guards history, lost and kills
	history []porcupine.Operation
	lost    int // of which nobody knows
	kills   int
}

// lossy loses some answers of the leader, after it has done what was asked.
type lossy struct {
	consensus.Remote
	rate func() bool
}

func (l lossy) Propose(ctx context.Context, to consensus.Leader, t kv.Txn) (kv.Result, error) {
	result, err := l.Remote.Propose(ctx, to, t)
	if err == nil && l.rate() {
		return kv.Result{}, &consensus.UnknownError{ID: t.ID, Err: io.ErrUnexpectedEOF}
	}
	return result, err
}

// run makes all operations and returns when the faults are over.
func (r *trialRun) run() {
	done := make(chan struct{})
	var nemesis, working sync.WaitGroup
	nemesis.Go(func() { r.disturb(rand.New(rand.NewPCG(r.seed, 1)), done) })
	for client := range clients {
		working.Go(func() { r.work(client, rand.New(rand.NewPCG(r.seed, uint64(100+client)))) })
	}
	working.Wait()
	close(done)
	nemesis.Wait()
}

func (r *trialRun) work(client int, random *rand.Rand) {
	seen := map[kv.Key]string{}
	for n := range operations / clients {
		<-time.After(time.Duration(random.Int64N(int64(250 * time.Millisecond))))
		op := operation{
			kind: opKind(random.IntN(4)), pair: random.IntN(pairs), side: random.IntN(2),
			value: strconv.Itoa(client) + "." + strconv.Itoa(n),
		}
		if random.IntN(4) > 0 { // mostly what it believes to be there
			op.expect = seen[op.key(op.side)]
		}
		call := r.clock.Add(1)
		out, done := r.do(r.someNode(random), op, seen)
		r.note(porcupine.Operation{ClientId: client, Input: op, Call: call, Output: out, Return: r.clock.Add(1)}, done)
	}
}

// someNode is a node that is up; a client of a dead one would connect elsewhere.
func (r *trialRun) someNode(random *rand.Rand) *consensus.Raft {
	for {
		r.mu.Lock()
		n := r.nodes[random.IntN(len(r.nodes))]
		up := n.raft
		r.mu.Unlock()
		if up != nil {
			return up
		}
		<-time.After(10 * time.Millisecond)
	}
}

// do makes one operation. done is false for one that had no effect.
func (r *trialRun) do(node *consensus.Raft, op operation, seen map[kv.Key]string) (out reply, done bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if op.kind == opGet {
		view, err := r.read(ctx, node)
		if err != nil {
			return reply{}, false
		}
		for side := range 2 {
			entry, _ := view.Get(op.key(side))
			out.values[side] = string(entry.Value)
			seen[op.key(side)] = out.values[side]
		}
		return out, true
	}
	result, err := node.Propose(ctx, op.txn())
	var unknown *consensus.UnknownError
	switch {
	case err == nil:
		if result.Succeeded {
			seen[op.key(op.side)] = op.value
		}
		return reply{succeeded: result.Succeeded}, true
	case errors.As(err, &unknown):
		return reply{unknown: true}, true
	case errors.Is(err, consensus.ErrNoLeader), errors.Is(err, consensus.ErrNoQuorum), errors.Is(err, consensus.ErrClosed):
		return reply{}, false
	}
	r.t.Errorf("seed %d: %+v: %v", r.seed, op, err)
	return reply{}, false
}

func (r *trialRun) read(ctx context.Context, node *consensus.Raft) (kv.View, error) {
	if r.localReads {
		return node.LocalView(), nil
	}
	return node.Read(ctx)
}

func (r *trialRun) note(op porcupine.Operation, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !done {
		return
	}
	if op.Output.(reply).unknown {
		r.lost++
		op.ClientId = clients + len(r.history) // its client goes on, it does not
		op.Return = 1 << 60
	}
	r.history = append(r.history, op)
}

// trial makes one run of a cluster of size nodes and gives porcupine's verdict.
func trial(t *testing.T, seed uint64, size int, plant func(*trialRun)) (verdict porcupine.CheckResult) {
	t.Helper()
	r := &trialRun{seed: seed}
	synctest.Test(t, func(t *testing.T) {
		r.cluster = newCluster(t, seed, size)
		defer r.stop()
		losing := rand.New(rand.NewPCG(seed, 2))
		var mu sync.Mutex // guards losing
		r.change = func(_ *node, o *consensus.Options) {
			o.Remote = lossy{Remote: o.Remote, rate: func() bool {
				mu.Lock()
				defer mu.Unlock()
				return losing.Float64() < 0.05
			}}
			// Snapshots come often, so that some are sent.
			o.Timing = consensus.Timing{SnapshotInterval: time.Second, SnapshotEntries: 100, TrailingEntries: 50}
		}
		if plant != nil {
			plant(r)
		}
		r.begin()
		r.run()
		r.agree()
	})
	known := len(r.history) - r.lost
	t.Logf("seed %d: %d nodes, %d operations with an effect or an answer, %d unknown, %d leaders killed", seed, size, len(r.history), r.lost, r.kills)
	if r.kills < 5 {
		t.Errorf("seed %d: %d leaders were killed; want 5", seed, r.kills)
	}
	if known < operations*8/10 {
		t.Errorf("seed %d: %d of %d outcomes are known; want 80 %%", seed, known, operations)
	}
	return porcupine.CheckOperationsTimeout(model, r.history, 2*time.Minute)
}

// runs is how many runs a test makes: 2, or 20 in the long form.
func runs() int {
	if os.Getenv("GRAPEVINE_LONG") == "1" {
		return 20
	}
	return 2
}

// firstSeed is random, or that of a run to repeat.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("GRAPEVINE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seed
	}
	return rand.Uint64()
}

// Writes and reads through any node are linearizable, whatever is killed or cut.
func TestLinearizable(t *testing.T) {
	first := firstSeed(t)
	for n := range runs() {
		size := 3
		if n%2 == 1 {
			size = 5
		}
		if verdict := trial(t, first+uint64(n), size, nil); verdict != porcupine.Ok {
			t.Errorf("seed %d: the history is %s", first+uint64(n), verdict)
		}
	}
}

// The checker objects to a read that asks no leader.
func TestCheckerFindsLocalReads(t *testing.T) {
	first := firstSeed(t)
	for n := range uint64(5) {
		if trial(t, first+n, 3, func(r *trialRun) { r.localReads = true }) == porcupine.Illegal {
			return
		}
	}
	t.Errorf("seeds from %d: local reads passed for linearizable ones", first)
}

// The checker objects to a leader that forgets which requests it has done.
func TestCheckerFindsForgottenRequests(t *testing.T) {
	first := firstSeed(t)
	for n := range uint64(5) {
		verdict := trial(t, first+n, 3, func(r *trialRun) {
			r.forget = true
		})
		if verdict == porcupine.Illegal {
			return
		}
	}
	t.Errorf("seeds from %d: forgotten requests passed unnoticed", first)
}
