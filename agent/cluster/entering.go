package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"grapevine/agent/identity"
	"grapevine/kv/consensus"
)

// found founds a cluster with this node as its only voter.
func (n *Node) found() error {
	if left, has := n.o.Store.Local(localLeft); has {
		n.outside = fmt.Errorf("this node has left cluster %s", left)
		return nil
	}
	// The mark first: a crash from here on leaves a node that knows that it founds,
	// and not one that has joined and waits to be taken in.
	if err := n.o.Store.SetLocal(localFounding, []byte("yes")); err != nil {
		return err
	}
	id, err := identity.Found(n.identity())
	if err != nil {
		return err
	}
	n.o.Logger.Info("founded a cluster", "cluster", id.Cluster().ID().String())
	return n.enter(id, nil)
}

// bootstrap begins raft's log on a node that founds its cluster.
func (n *Node) bootstrap(raft *consensus.Raft, server string) error {
	if _, founding := n.o.Store.Local(localFounding); !founding {
		return nil
	}
	err := raft.Bootstrap(consensus.Server{ID: server, Address: n.advertise.Address.String(), Voter: true})
	if err != nil && !errors.Is(err, consensus.ErrHasState) {
		return err
	}
	return n.o.Store.DeleteLocal(localFounding)
}

// join asks to be let in until it is, or is refused for good.
func (n *Node) join() error {
	holds := n.o.Store.View().Rev().Rev > 0
	if holds {
		if err := n.markAdoption(adoption{n.o.Join.Token.Cluster.String(), n.o.Join.seeds()}); err != nil {
			return err
		}
	}
	id, joined, err := identity.Join(n.ctx, n.identity(), identity.Joining{
		Token: n.o.Join.Token, Seeds: n.o.Join.Seeds, Role: n.o.Role, Version: n.o.Version, Address: n.advertise.Address.String(),
		Adopt: true, // mayGiveUp has been asked
		Dial:  n.dialToJoin, Logger: n.o.Logger,
	})
	if err != nil {
		return fmt.Errorf("joining cluster %s: %w", n.o.Join.Token.Cluster, err)
	}
	n.o.Logger.Info("joined a cluster", "cluster", id.Cluster().ID().String(), "role", string(id.Role()))
	seeds := slices.Concat(joined.Seeds, n.o.Join.seeds())
	if holds {
		err = n.adopt(id, seeds)
	} else {
		err = n.beginAnew()
	}
	if err != nil {
		return err
	}
	return n.enter(id, joined.Seeds)
}

func (n *Node) dialToJoin(ctx context.Context, address string) (net.Conn, error) {
	return n.o.Port.Dial(ctx, address)
}

// nextServer puts raft's folder out of the way and gives the node another id in
// raft: who has forgotten its votes must not vote under the old one.
func (n *Node) nextServer() error {
	dir := n.file("raft")
	if dir != "" && exists(dir) {
		archived, err := consensus.Archive(dir)
		if err != nil {
			return err
		}
		n.o.Logger.Info("raft's log is put aside", "folder", archived)
	}
	// A number that a store which is lost has not counted either.
	count, _ := n.servers()
	count = max(count+1, int(time.Now().Unix()))
	return n.o.Store.SetLocal(localServer, []byte(strconv.Itoa(count)))
}

// markOfRaft is the local value by which raft knows the store, see package
// consensus.
const markOfRaft = "consensus/server"

// lostStore tells whether the node has voted with a store that is not there any
// more: it proves who it is, and the store knows neither of raft nor of founding.
func (n *Node) lostStore() bool {
	_, marked := n.o.Store.Local(markOfRaft)
	_, founding := n.o.Store.Local(localFounding)
	return !marked && !founding
}

// servers counts the ids that the node has had in raft, and gives the present one.
func (n *Node) servers() (count int, id string) {
	if text, there := n.o.Store.Local(localServer); there {
		count, _ = strconv.Atoi(string(text)) // who changes the file by hand begins anew
	}
	if count == 0 {
		return 0, n.o.ID
	}
	return count, fmt.Sprintf("%s.%d", n.o.ID, count)
}
