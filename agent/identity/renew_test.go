package identity_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"grapevine/agent/identity"
)

const day = 24 * time.Hour

// renewal brings a node's requests to a voter.
func (n *town) renewal(id *identity.Identity, from, to *resident) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		raw, err := from.host.Dial(ctx, to.addr)
		if err != nil {
			return nil, err
		}
		conn, _, err := id.Client(ctx, raw, identity.ProtocolPeer, to.id.Node())
		if err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return identity.AskToRenew(ctx, conn, request)
	}
}

func TestCertificatesStayFresh(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter := n.settle(1, foundAt(t, identity.Options{Path: identityFile(t), Node: nodeID(1)}), nil)
		path := identityFile(t)
		id, _, err := n.join(2, identity.Options{Path: path}, identity.Joining{Token: voter.issue(t, identity.TokenOptions{Role: identity.Edge})})
		if err != nil {
			t.Fatal(err)
		}
		edge := n.settle(2, id, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		log := new(lines)
		go func() { done <- voter.id.KeepFresh(ctx, nil, log.logger()) }()
		go func() { done <- id.KeepFresh(ctx, n.renewal(id, edge, voter), log.logger()) }()
		joined, first, self := time.Now(), id.Expires(), id.Self()
		if at := id.RenewAt().Sub(joined); at < 243*day || at > 244*day {
			t.Errorf("renews after %s, want two thirds of a year", at)
		}
		pass(243 * day)
		if !id.Expires().Equal(first) {
			t.Error("renewed before two thirds of its life")
		}
		pass(20 * day)
		if !id.Expires().After(first.Add(243*day)) || !voter.id.Expires().After(first.Add(243*day)) {
			t.Errorf("expires %s and %s, before %s", id.Expires(), voter.id.Expires(), first)
		}
		if id.Self() != self {
			t.Errorf("is now %v, was %v", id.Self(), self)
		}
		pass(5 * 365 * day)
		if o := shake(t, voter.id, protocols, as(id, identity.ProtocolPeer)); o.server != nil || o.client != nil {
			t.Error("after five years:", o.server, o.client)
		}
		again, err := identity.Open(identity.Options{Path: path, Node: nodeID(2)})
		if err != nil || !again.Expires().Equal(id.Expires()) {
			t.Errorf("the file holds another one: %v, %v", again, err)
		}
		cancel()
		for range 2 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if strings.Contains(log.String(), "not renewed") {
			t.Errorf("log %s", log)
		}
	})
}

func TestARenewalThatFailsIsTriedAgainAndTold(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := n.cluster()
		keep := func(ask func(context.Context, []byte) ([]byte, error), log *lines, until time.Time) {
			ctx, cancel := context.WithDeadline(t.Context(), until)
			defer cancel()
			if err := edge.id.KeepFresh(ctx, ask, log.logger()); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		var tries []time.Time
		log := new(lines)
		end := edge.id.Expires()
		keep(func(context.Context, []byte) ([]byte, error) {
			tries = append(tries, time.Now())
			return nil, errors.New("no voter answers")
		}, log, end.Add(-time.Hour))
		for i := 1; i < len(tries); i++ {
			if wait := tries[i].Sub(tries[i-1]); wait < 30*time.Second || wait > time.Hour {
				t.Fatalf("attempt %d after %s", i, wait)
			}
		}
		if len(tries) < 2000 {
			t.Errorf("only %d attempts", len(tries))
		}
		// At first, and 30, 7 and 1 days before the end.
		if all, bad := strings.Count(log.String(), "certificate not renewed"), strings.Count(log.String(), "level=ERROR"); all != 4 || bad != 3 {
			t.Errorf("%d lines, %d of them errors:\n%s", all, bad, log)
		}
		if err := voter.id.Renew(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		keep(n.renewal(edge.id, edge, voter), log, end.Add(-time.Minute))
		if left := time.Until(edge.id.Expires()); left < 364*day || !strings.Contains(log.String(), "certificate renewed") {
			t.Errorf("%s left; log:\n%s", left, log)
		}
	})
}

// TestAVoterWhoseCertificateIsOverHealsItself: it was switched off for long.
func TestAVoterWhoseCertificateIsOverHealsItself(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		o := identity.Options{Path: identityFile(t), Node: nodeID(1)}
		foundAt(t, o)
		pass(3 * 365 * day)
		id, err := identity.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- id.KeepFresh(ctx, nil, new(lines).logger()) }()
		pass(time.Second)
		if left := time.Until(id.Expires()); left < 364*day {
			t.Errorf("%s left", left)
		}
		cancel()
		<-done
	})
}

// TestAVoterWhoseCertificateBeginsLaterHealsItself: its clock was ahead.
func TestAVoterWhoseCertificateBeginsLaterHealsItself(t *testing.T) {
	o := identity.Options{Path: identityFile(t), Node: nodeID(1)}
	inBubble(t, func(t *testing.T, _ *town) {
		pass(3 * 365 * day)
		foundAt(t, o)
	})
	inBubble(t, func(t *testing.T, _ *town) {
		id, err := identity.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := id.KeepFresh(ctx, nil, new(lines).logger()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if left := time.Until(id.Expires()); left > 365*day {
			t.Errorf("%s left", left)
		}
		if o := shake(t, id, protocols, as(id, identity.ProtocolRaft)); o.server != nil || o.client != nil {
			t.Error(o.server, o.client)
		}
	})
}

func TestRenewalsThatAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		revoked := ""
		voter := n.settle(1, foundAt(t, identity.Options{Node: nodeID(1), Denied: func(node string) bool { return node == revoked }}), nil)
		edge := n.settle(2, n.admit(2, voter.issue(t, identity.TokenOptions{Role: identity.Edge})), nil)
		second := n.admit(3, voter.issue(t, identity.TokenOptions{Role: identity.Edge}))
		ask := n.renewal(edge.id, edge, voter)

		_, err := ask(t.Context(), identity.NewRequest(t, nodeID(2)))
		wantRefusal(t, err, identity.ReasonTaken)
		_, err = ask(t.Context(), []byte("nonsense"))
		wantRefusal(t, err, identity.ReasonRequest)
		_, err = identity.AskToRenew(t.Context(), n.knock(5, voter, identity.ProtocolJoin), identity.NewRequest(t, nodeID(2)))
		wantRefusal(t, err, identity.ReasonRequest)
		wantError(t, err, "shows no certificate")
		wantRefusal(t, second.Renew(t.Context(), n.renewal(second, voter, edge)), identity.ReasonVoter)
		// An answer that is another's certificate changes nothing.
		before := edge.id.Expires()
		err = edge.id.Renew(t.Context(), func(ctx context.Context, _ []byte) ([]byte, error) {
			answer, err := identity.AskToJoin(ctx, n.knock(6, voter, identity.ProtocolJoin),
				requestOf(t, 6, voter.issue(t, identity.TokenOptions{Role: identity.Edge}), identity.Edge))
			if err != nil {
				return nil, err
			}
			return answer.Certificate, nil
		})
		wantError(t, err, nodeID(6), nodeID(2))
		wantError(t, edge.id.Renew(t.Context(), func(context.Context, []byte) ([]byte, error) { return []byte("x"), nil }), "new certificate")
		wantError(t, edge.id.Renew(t.Context(), func(context.Context, []byte) ([]byte, error) { return found(t, 2).Cluster().Certificate(), nil }), "new certificate")
		if !edge.id.Expires().Equal(before) {
			t.Error("the certificate changed")
		}
		if err := edge.id.Renew(t.Context(), ask); err != nil {
			t.Error(err)
		}
		revoked = nodeID(2)
		wantError(t, edge.id.Renew(t.Context(), ask), "certificate")
	})
}
