package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/identity"
	"grapevine/kv"
)

// localAdopting is set while the node is to take the state of a cluster in place of its
// own: the cluster's id in the first line, then addresses of nodes that have it. It is
// set before the node becomes a member there, so that no crash leaves a member with the
// state of another cluster.
const localAdopting = "cluster/adopting"

// adoption is what localAdopting holds.
type adoption struct {
	cluster string
	seeds   []string
}

func (n *Node) adoption() (adoption, bool) {
	value, there := n.o.Store.Local(localAdopting)
	if !there {
		return adoption{}, false
	}
	lines := strings.Split(string(value), "\n")
	return adoption{lines[0], lines[1:]}, true
}

func (n *Node) markAdoption(a adoption) error {
	return n.o.Store.SetLocal(localAdopting, []byte(strings.Join(append([]string{a.cluster}, a.seeds...), "\n")))
}

// errAdopting is what a node says that is a member and has not the cluster's state yet.
var errAdopting = &api.RefusedError{Reason: "this node is to take the state of its cluster in place of its own, and has not got it yet; its log says whom it asks"}

// adopt takes the state of the cluster, from whoever has it, for as long as it takes.
func (n *Node) adopt(id *identity.Identity, seeds []string) error {
	n.mu.Lock()
	n.outside = errAdopting
	n.mu.Unlock()
	waits := 500 * time.Millisecond
	for {
		snapshot, err := n.stateOfAny(id, seeds)
		if err == nil {
			return n.replaceBy(snapshot)
		}
		n.o.Logger.Warn("the state of the cluster is not there yet", "err", err)
		waits = min(2*waits, 15*time.Second)
		if !sleep(n.ctx, waits/2+rand.N(waits/2)) {
			return n.ctx.Err()
		}
	}
}

// stateOfAny asks one node after the other: each for who leads, and that for the state.
func (n *Node) stateOfAny(id *identity.Identity, seeds []string) (*kv.Snapshot, error) {
	ctx, cancel := context.WithTimeout(n.ctx, stateTime)
	defer cancel()
	var errs []error
	for _, seed := range seeds {
		snapshot, err := n.stateOf(ctx, id, seed)
		if err == nil {
			return snapshot, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", seed, err))
	}
	if len(seeds) == 0 {
		errs = append(errs, errors.New("no address of another node is known; start it with --join"))
	}
	return nil, errors.Join(errs...)
}

func (n *Node) stateOf(ctx context.Context, id *identity.Identity, address string) (*kv.Snapshot, error) {
	conn, err := n.dialAs(ctx, id, address)
	if err != nil {
		return nil, err
	}
	if peer, _ := identity.PeerOf(conn); peer.Role == identity.Voter {
		return takeState(ctx, conn, id.Verify)
	}
	var news leaderNews
	if err := getOver(ctx, conn, pathLeader, &news); err != nil {
		return nil, err
	}
	if news.Address == "" {
		return nil, errors.New("it is an edge, and knows of no leader")
	}
	if conn, err = n.dialAs(ctx, id, news.Address); err != nil {
		return nil, err
	}
	return takeState(ctx, conn, id.Verify)
}

// dialAs connects to another node before this one has a port of its own.
func (n *Node) dialAs(ctx context.Context, id *identity.Identity, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, askRing)
	defer cancel()
	raw, err := n.o.Port.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	conn, _, err := id.Client(ctx, raw, identity.ProtocolPeer, "")
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return conn, nil
}

// getOver asks one question over a connection, which it closes.
func getOver(ctx context.Context, conn net.Conn, path string, out any) error {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path, nil)
	if err != nil {
		return err
	}
	request.Close = true
	if err := request.Write(conn); err != nil {
		return err
	}
	response, err := readResponse(conn, request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(io.LimitReader(response.Body, maxCallBytes)).Decode(out)
}

func readResponse(conn net.Conn, request *http.Request) (*http.Response, error) {
	return http.ReadResponse(bufio.NewReader(conn), request)
}

// replaceBy puts a state in the place of this node's own, which is kept beside it, and
// lets the node begin anew in raft.
func (n *Node) replaceBy(snapshot *kv.Snapshot) error {
	n.o.Logger.Warn("what the node held is given up, and kept beside the store", "rev", n.o.Store.View().Rev().String(), "takes", snapshot.Head().Rev.String())
	if err := n.o.Store.Keep(); err != nil {
		return err
	}
	if err := n.o.Store.Restore(snapshot); err != nil {
		return err
	}
	if err := n.beginAnew(); err != nil {
		return err
	}
	return n.o.Store.DeleteLocal(localAdopting)
}

// beginAnew makes the node one that knows of no log, nor of having founded or left.
func (n *Node) beginAnew() error {
	for _, name := range []string{localFounding, localLeft} {
		if err := n.o.Store.DeleteLocal(name); err != nil {
			return err
		}
	}
	return n.nextServer()
}
