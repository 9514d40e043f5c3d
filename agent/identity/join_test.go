package identity_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"grapevine/agent/identity"
)

func TestJoinAsEdgeAndAsVoter(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		first := n.settle(1, found(t, 1), nil)
		path := identityFile(t)
		edge, joined, err := n.join(2, identity.Options{Path: path}, identity.Joining{
			Token: first.issue(t, identity.TokenOptions{Role: identity.Edge}), Version: "1.2.3", Address: "10.0.0.2:7946",
		})
		if err != nil {
			t.Fatal(err)
		}
		if edge.Role() != identity.Edge || edge.Node() != nodeID(2) || edge.Authority() != nil || edge.Cluster().ID() != first.id.Cluster().ID() {
			t.Errorf("edge is %v of %s, authority %v", edge.Self(), edge.Cluster().ID(), edge.Authority())
		}
		if joined.Observed != "10.0.0.2" || fmt.Sprint(joined.Seeds) != "[10.0.0.1:7946]" {
			t.Errorf("joined %+v", joined)
		}
		if got, want := fmt.Sprint(edge.GossipKeys()), fmt.Sprint(first.id.GossipKeys()); got != want {
			t.Errorf("gossip keys %s, want %s", got, want)
		}
		again, err := identity.Open(identity.Options{Path: path, Node: nodeID(2)})
		if err != nil || again.Self() != edge.Self() {
			t.Errorf("opened %v, %v", again, err)
		}

		first.door.Use = first.use
		voter := n.admit(3, first.issue(t, identity.TokenOptions{Role: identity.Voter}))
		head := signed(voter.Authority(), 7)
		if err := first.id.Verify(head); err != nil {
			t.Error("a head that the second voter signed:", err)
		}
		// A voter admits others with what it was given.
		second := n.settle(3, voter, nil)
		if third := n.admit(4, second.issue(t, identity.TokenOptions{Role: identity.Edge})); third.Cluster().ID() != edge.Cluster().ID() {
			t.Error("another cluster")
		}
	})
}

func TestAVotersTokenAdmitsEdgesToo(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		first := n.settle(1, found(t, 1), nil)
		first.door.Use = first.use
		id, _, err := n.join(2, identity.Options{}, identity.Joining{Token: first.issue(t, identity.TokenOptions{Role: identity.Voter}), Role: identity.Edge})
		if err != nil || id.Role() != identity.Edge || id.Authority() != nil {
			t.Errorf("%v, %v", id, err)
		}
	})
}

func TestRefusedForGood(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		other := found(t, 9)
		revoked := foundAt(t, identity.Options{Node: nodeID(1), Denied: func(node string) bool { return node == nodeID(5) }})
		first := n.settle(1, revoked, func(o *identity.DoorOptions) {
			o.Holder = func(node string) (identity.PublicKey, bool) { return other.Self().Key, node == nodeID(6) }
		})
		first.door.Use = first.use
		edges := first.issue(t, identity.TokenOptions{Role: identity.Edge})
		once := first.issue(t, identity.TokenOptions{Role: identity.Edge, Uses: 1})
		n.admit(20, once)
		short := first.issue(t, identity.TokenOptions{Role: identity.Edge, Life: time.Minute})
		long := first.issue(t, identity.TokenOptions{Role: identity.Edge, Life: time.Hour})
		pass(time.Minute)
		foreign := edges
		foreign.Cluster = other.Cluster().ID()
		for _, test := range []struct {
			number int
			j      identity.Joining
			reason identity.Reason
			text   string
		}{
			{4, identity.Joining{Token: short}, identity.ReasonExpired, "expired at 2000-01-01T00:01:00Z"},
			{4, identity.Joining{Token: once}, identity.ReasonUsedUp, "all its 1 uses"},
			{4, identity.Joining{Token: long, Role: identity.Voter}, identity.ReasonRole, "is for edges"},
			{4, identity.Joining{Token: foreign}, identity.ReasonCluster, "of cluster " + revoked.Cluster().ID().String()},
			{5, identity.Joining{Token: long}, identity.ReasonRevoked, nodeID(5) + " was revoked"},
			{6, identity.Joining{Token: long}, identity.ReasonTaken, "member with another key"},
			{1, identity.Joining{Token: long}, identity.ReasonTaken, "member with another key"},
			{4, identity.Joining{Token: long, Version: strings.Repeat("v", 101)}, identity.ReasonRequest, "version"},
			{4, identity.Joining{Token: long, Address: "nowhere"}, identity.ReasonRequest, `address "nowhere"`},
		} {
			start := time.Now()
			_, _, err := n.join(test.number, identity.Options{}, test.j)
			wantRefusal(t, err, test.reason)
			wantError(t, err, test.text)
			if took := time.Since(start); took > time.Second {
				t.Errorf("%s: took %s", test.reason, took)
			}
		}
	})
}

func TestClocksThatDifferAreNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		first := n.settle(1, found(t, 1), nil)
		token := first.issue(t, identity.TokenOptions{Role: identity.Edge})
		for offset, want := range map[time.Duration]identity.Reason{
			0: "", 29 * time.Minute: "", -29 * time.Minute: "",
			31 * time.Minute: identity.ReasonClock, -31 * time.Minute: identity.ReasonClock,
		} {
			request := requestOf(t, 2, token, identity.Edge)
			request.Time = request.Time.Add(offset)
			_, err := identity.AskToJoin(t.Context(), n.knock(3, first, identity.ProtocolJoin), request)
			if want == "" && err != nil {
				t.Errorf("%s: %v", offset, err)
			} else if want != "" {
				wantRefusal(t, err, want)
				wantError(t, err, "2000-01-01", "set them right")
			}
		}
	})
}

// TestANewTokenMayTakeAWhile: a token that no seed knows yet is tried again, but
// not for ever.
func TestANewTokenMayTakeAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		first := n.settle(1, found(t, 1), nil)
		token, record, err := first.id.Cluster().NewToken(identity.TokenOptions{Role: identity.Edge, Seeds: []string{first.addr}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			pass(2 * time.Second)
			first.set(record)
		}()
		n.admit(2, token)

		unknown, _, err := first.id.Cluster().NewToken(identity.TokenOptions{Role: identity.Edge, Seeds: []string{first.addr}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, _, err = n.join(3, identity.Options{}, identity.Joining{Token: unknown})
		wantRefusal(t, err, identity.ReasonUnknown)
		if took := time.Since(start); took < 5*time.Second || took > time.Minute {
			t.Errorf("gave up after %s", took)
		}
	})
}

func TestJoinGoesOnUntilASeedIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		id := found(t, 1)
		token, record, err := id.Cluster().NewToken(identity.TokenOptions{Role: identity.Edge, Seeds: []string{"10.0.0.8:7946", "10.0.0.1:7946"}})
		if err != nil {
			t.Fatal(err)
		}
		n.network.Host("10.0.0.8") // where nobody listens
		go func() {
			pass(3 * time.Minute)
			n.settle(1, id, nil).set(record)
		}()
		log := new(lines)
		if _, _, err := n.join(2, identity.Options{}, identity.Joining{Token: token, Logger: log.logger()}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "10.0.0.8:7946") || !strings.Contains(log.String(), "10.0.0.1:7946") {
			t.Errorf("log %s", log)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = identity.Join(ctx, identity.Options{Node: nodeID(3)}, identity.Joining{
			Token: token, Seeds: []string{"10.0.0.8:7946"}, Dial: n.network.Host("10.0.0.3").Dial,
		})
		wantError(t, err, "10.0.0.8:7946")
	})
}

// TestWithoutAQuorum: what needs no agreement goes on.
func TestWithoutAQuorum(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		first := n.settle(1, found(t, 1), func(o *identity.DoorOptions) {
			o.Use = func(context.Context, string, string, identity.PublicKey) error { return errors.New("no leader") }
		})
		n.admit(2, first.issue(t, identity.TokenOptions{Role: identity.Edge}))
		for _, o := range []identity.TokenOptions{{Role: identity.Edge, Uses: 5}, {Role: identity.Voter}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, _, err := identity.Join(ctx, identity.Options{Node: nodeID(3)}, identity.Joining{Token: first.issue(t, o), Dial: n.network.Host("10.0.0.3").Dial})
			cancel()
			wantRefusal(t, err, identity.ReasonNoQuorum)
			wantError(t, err, "no leader")
		}
	})
}

func TestAnEdgePassesAJoinOn(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := n.cluster()
		token := voter.issue(t, identity.TokenOptions{Role: identity.Edge, Seeds: []string{edge.addr}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, _, err := identity.Join(ctx, identity.Options{Node: nodeID(3)}, identity.Joining{Token: token, Dial: n.network.Host("10.0.0.3").Dial})
		cancel()
		wantRefusal(t, err, identity.ReasonVoter)

		edge.door.Forward = func(ctx context.Context, request *identity.JoinRequest) (*identity.JoinAnswer, error) {
			if !request.Forwarded {
				t.Error("the request does not say that it was passed on")
			}
			raw, err := edge.host.Dial(ctx, voter.addr)
			if err != nil {
				return nil, err
			}
			conn, _, err := edge.id.Client(ctx, raw, identity.ProtocolPeer, "")
			if err != nil {
				return nil, err
			}
			return identity.AskToJoin(ctx, conn, request)
		}
		_, joined, err := n.join(3, identity.Options{}, identity.Joining{Token: token})
		if err != nil || joined.Observed != "10.0.0.3" {
			t.Errorf("%+v, %v", joined, err)
		}
		// It does so once: two edges that take each other for voters send nothing round.
		round := requestOf(t, 4, token, identity.Edge)
		round.Forwarded = true
		_, err = identity.AskToJoin(t.Context(), n.knock(4, edge, identity.ProtocolJoin), round)
		wantRefusal(t, err, identity.ReasonVoter)
		// What the voter refuses, the edge refuses in its words.
		_, _, err = n.join(1, identity.Options{}, identity.Joining{Token: token})
		wantRefusal(t, err, identity.ReasonTaken)
	})
}

func TestAMemberStaysInItsCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		a, b := n.settle(1, found(t, 1), nil), n.settle(2, found(t, 2), nil)
		o := identity.Options{Path: identityFile(t)}
		id, _, err := n.join(3, o, identity.Joining{Token: a.issue(t, identity.TokenOptions{Role: identity.Edge})})
		if err != nil {
			t.Fatal(err)
		}
		toB := identity.Joining{Token: b.issue(t, identity.TokenOptions{Role: identity.Edge})}
		_, _, err = n.join(3, o, toB)
		wantRefusal(t, err, identity.ReasonCluster)
		wantError(t, err, a.id.Cluster().ID().String(), b.id.Cluster().ID().String(), "--adopt")
		o.Node = nodeID(3)
		if kept, err := identity.Open(o); err != nil || kept.Self() != id.Self() {
			t.Errorf("%v, %v", kept, err)
		}
		toB.Adopt = true
		moved, _, err := n.join(3, o, toB)
		if err != nil || moved.Cluster().ID() != b.id.Cluster().ID() || moved.Self() != id.Self() {
			t.Errorf("%v, %v", moved, err)
		}
		// In the same cluster it may join again, and may rise.
		b.door.Use = b.use
		risen, _, err := n.join(3, o, identity.Joining{Token: b.issue(t, identity.TokenOptions{Role: identity.Voter})})
		if err != nil || risen.Role() != identity.Voter || risen.Self().Key != id.Self().Key {
			t.Errorf("%v, %v", risen, err)
		}
	})
}

// knock opens a connection from 10.0.0.n as one that is no node.
func (n *town) knock(number int, r *resident, protocol string) net.Conn {
	n.t.Helper()
	raw, err := n.network.Host(fmt.Sprintf("10.0.0.%d", number)).Dial(n.t.Context(), r.addr)
	if err != nil {
		n.t.Fatal(err)
	}
	conn, _, err := nobody(protocol)(n.t.Context(), raw)
	if err != nil {
		n.t.Fatal(err)
	}
	return conn
}

func requestOf(t testing.TB, number int, token identity.Token, role identity.Role) *identity.JoinRequest {
	t.Helper()
	return &identity.JoinRequest{
		Cluster: token.Cluster, Secret: token.Secret, Node: nodeID(number), Role: role,
		Request: identity.NewRequest(t, nodeID(number)), Time: time.Now(),
	}
}
