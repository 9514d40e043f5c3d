package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"grapevine/agent/identity"
	"grapevine/kv"
)

// A node that goes over to another history takes it as a whole, from a voter, before it
// gives up its own: until then it serves what it has.

// pathState gives the whole store, as kv.Snapshot writes it.
const pathState = "/node/state"

const (
	// maxStateBytes bounds a store that is taken, as package gossip does.
	maxStateBytes = 1 << 30
	// stateTime bounds the way of a store from one node to another.
	stateTime = 10 * time.Minute
	// statesAtOnce is how many are given at the same time.
	statesAtOnce = 4
)

// giveState gives this node's store to another.
func (m *member) giveState(places chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			http.Error(w, "too many nodes take the store at once", http.StatusServiceUnavailable)
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stateTime)) // it would only wait longer
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = m.n.o.Store.Snapshot().WriteTo(w) // who does not get all of it notices
	}
}

// stateReader reads the store of the node at the other end of conn, which it closes.
type stateReader func(ctx context.Context, conn net.Conn, verify func(kv.Head) error) (*kv.Snapshot, error)

// takeState is readState for what is to be taken: only a voter is believed, since the
// signature of a head says nothing of the entries.
func takeState(ctx context.Context, conn net.Conn, verify func(kv.Head) error) (*kv.Snapshot, error) {
	if peer, known := identity.PeerOf(conn); !known || peer.Role != identity.Voter {
		return nil, errors.Join(fmt.Errorf("node %s is no voter, and only voters are believed", peer.Node), conn.Close())
	}
	return readState(ctx, conn, verify)
}

func readState(ctx context.Context, conn net.Conn, verify func(kv.Head) error) (*kv.Snapshot, error) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+pathState, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	response, err := readResponse(conn, request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return nil, fmt.Errorf("%s: %s: %.200s", pathState, response.Status, text)
	}
	snapshot, err := kv.ReadSnapshot(io.LimitReader(response.Body, maxStateBytes))
	if err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	if head := snapshot.Head(); head.Rev.Rev > 0 { // nothing was ever signed in a cluster that holds nothing
		return snapshot, verify(head)
	}
	return snapshot, nil
}
