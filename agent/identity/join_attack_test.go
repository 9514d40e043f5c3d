package identity_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"grapevine/agent/identity"
)

func TestAnEdgesTokenDoesNotYieldAVoterWhateverTheClientSays(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		first := n.settle(1, found(t, 1), nil)
		first.door.Use = first.use
		token := first.issue(t, identity.TokenOptions{Role: identity.Edge})
		lying := token
		lying.Role = identity.Voter // only the client's side of it
		_, _, err := n.join(2, identity.Options{}, identity.Joining{Token: lying, Role: identity.Voter})
		wantRefusal(t, err, identity.ReasonRole)
	})
}

// TestASecretHasToMatchAllOfItsRecord: the front of its hash only names the record.
func TestASecretHasToMatchAllOfItsRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		first := n.settle(1, found(t, 1), nil)
		token := first.issue(t, identity.TokenOptions{Role: identity.Edge})
		record, _ := first.token(token.ID())
		record.Hash[31]++
		first.set(record)
		_, err := identity.AskToJoin(t.Context(), n.knock(2, first, identity.ProtocolJoin), requestOf(t, 2, token, identity.Edge))
		wantRefusal(t, err, identity.ReasonUnknown)
	})
}

// TestStrangersDoNotFillTheLog: anybody may knock, as often as he likes.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		log := new(lines)
		first := n.settle(1, found(t, 1), func(o *identity.DoorOptions) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		token := first.issue(t, identity.TokenOptions{Role: identity.Edge})
		token.Secret[0]++
		knock := func() {
			_, err := identity.AskToJoin(t.Context(), n.knock(2, first, identity.ProtocolJoin), requestOf(t, 2, token, identity.Edge))
			wantRefusal(t, err, identity.ReasonUnknown)
		}
		for range 50 {
			knock()
		}
		<-time.After(time.Minute)
		knock()
		if told := strings.Count(log.String(), "join refused"); told != 2 || !strings.Contains(log.String(), "others=49") {
			t.Errorf("%d lines for 51 knocks:\n%s", told, log)
		}
	})
}

// interloper stands between a node and its seed: it has a cluster of its own, and
// notes what it is told.
func (n *town) interloper(number int, id *identity.Identity) (addr string, heard *lines) {
	host := n.network.Host(fmt.Sprintf("10.0.0.%d", number))
	listener, err := host.Listen(7946)
	if err != nil {
		n.t.Fatal(err)
	}
	heard = new(lines)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			if conn, _, _, err := id.Server(context.Background(), raw, protocols); err == nil {
				io.Copy(heard, conn)
			}
			raw.Close()
		}
	}()
	n.t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return listener.Addr().String(), heard
}

func TestSomebodyBetweenIsFoundOutBeforeTheSecretIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		addr, heard := n.interloper(7, found(t, 7))
		first := n.settle(1, found(t, 1), nil)
		token := first.issue(t, identity.TokenOptions{Role: identity.Edge, Seeds: []string{addr, first.addr}})
		log := new(lines)
		if _, _, err := n.join(2, identity.Options{}, identity.Joining{Token: token, Logger: log.logger()}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := identity.Join(ctx, identity.Options{Node: nodeID(3)}, identity.Joining{Token: token, Seeds: []string{addr}, Dial: n.network.Host("10.0.0.3").Dial})
		wantError(t, err, addr, "not by the CA "+token.CA.String(), "somebody stands between")
		if heard.String() != "" {
			t.Errorf("it heard %q", heard)
		}
	})
}

// TestAForgedChainIsFoundOut: showing the true CA's certificate beside a
// certificate that it did not sign helps nobody.
func TestAForgedChainIsFoundOut(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		first := n.settle(1, found(t, 1), nil)
		addr, heard := n.interloper(7, identity.Forge(t, found(t, 7), first.id))
		token := first.issue(t, identity.TokenOptions{Role: identity.Edge, Seeds: []string{addr}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := identity.Join(ctx, identity.Options{Node: nodeID(3)}, identity.Joining{Token: token, Dial: n.network.Host("10.0.0.3").Dial})
		wantError(t, err, addr, "unknown authority")
		if heard.String() != "" {
			t.Errorf("it heard %q", heard)
		}
	})
}

// TestAVotersTokenIsShownToVotersOnly: an edge that is asked first only says who
// the voters are.
func TestAVotersTokenIsShownToVotersOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := n.cluster()
		voter.door.Use = voter.use
		token := voter.issue(t, identity.TokenOptions{Role: identity.Voter, Seeds: []string{edge.addr}})
		record, _ := voter.token(token.ID())
		edge.set(record)
		edge.door.Forward = func(context.Context, *identity.JoinRequest) (*identity.JoinAnswer, error) {
			t.Error("the edge got the request")
			return nil, errors.New("no")
		}
		edge.door.Voters = func() []string { return []string{"bad address", voter.addr} }
		id := n.admit(3, token)
		if id.Role() != identity.Voter || id.Authority() == nil {
			t.Errorf("%v", id.Self())
		}
		// Who is no voter himself but pretends to know some leads nowhere.
		edge.door.Voters = func() []string { return []string{edge.addr} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := identity.Join(ctx, identity.Options{Node: nodeID(4)}, identity.Joining{Token: token, Dial: n.network.Host("10.0.0.4").Dial})
		wantRefusal(t, err, identity.ReasonVoter)
		// Asked directly, it gives no more than a refusal.
		_, err = identity.AskToJoin(t.Context(), n.knock(5, edge, identity.ProtocolJoin), requestOf(t, 5, token, identity.Voter))
		wantRefusal(t, err, identity.ReasonVoter)
	})
}

// TestAnswersAreChecked: even a member may answer nonsense.
func TestAnswersAreChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := n.cluster()
		stranger := found(t, 9)
		token := voter.issue(t, identity.TokenOptions{Role: identity.Edge, Seeds: []string{edge.addr}})
		good := func(request *identity.JoinRequest) *identity.JoinAnswer {
			answer, err := identity.AskToJoin(t.Context(), n.knock(50, voter, identity.ProtocolJoin), request)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		for i, test := range []struct {
			spoil func(*identity.JoinAnswer)
			want  string
		}{
			{func(a *identity.JoinAnswer) { a.CA = stranger.Cluster().Certificate() }, "its CA is not"},
			{func(a *identity.JoinAnswer) { a.CA = nil }, "its CA is not"},
			{func(a *identity.JoinAnswer) { a.Certificate = nil }, "malformed"},
			{func(a *identity.JoinAnswer) { a.Certificate = a.CA }, "role"},
			{func(a *identity.JoinAnswer) { a.Certificate = good(requestOf(t, 40, token, identity.Edge)).Certificate }, "belongs to no certificate"},
			{func(a *identity.JoinAnswer) { a.GossipKeys = nil }, "gossip keys"},
			{func(a *identity.JoinAnswer) { a.GossipKeys = [][]byte{make([]byte, 16)} }, "16 bytes"},
			{func(a *identity.JoinAnswer) { a.CAKey = make([]byte, 31) }, "CA key: has 31 bytes"},
			{func(a *identity.JoinAnswer) { a.CAKey = make([]byte, 32) }, "belongs to no certificate"},
		} {
			edge.door.Forward = func(_ context.Context, request *identity.JoinRequest) (*identity.JoinAnswer, error) {
				answer := good(request)
				test.spoil(answer)
				return answer, nil
			}
			path := identityFile(t)
			_, _, err := n.join(10+i, identity.Options{Path: path}, identity.Joining{Token: token})
			wantError(t, err, "answer", test.want)
			if _, err := identity.Open(identity.Options{Path: path, Node: nodeID(10 + i)}); !errors.Is(err, identity.ErrNoMember) {
				t.Errorf("%s: afterwards: %v", test.want, err)
			}
		}
		edge.door.Forward = func(_ context.Context, request *identity.JoinRequest) (*identity.JoinAnswer, error) {
			answer := good(request)
			answer.Seeds = make([]string, 100_000)
			return answer, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := identity.Join(ctx, identity.Options{Node: nodeID(30)}, identity.Joining{Token: token, Dial: n.network.Host("10.0.0.30").Dial})
		wantError(t, err, "more than 262144 bytes")
	})
}

// TestASilentSeedCostsOneTimeout: the next one is asked.
func TestASilentSeedCostsOneTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		silent, err := n.network.Host("10.0.0.7").Listen(7946)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		first := n.settle(1, found(t, 1), nil)
		start := time.Now()
		n.admit(2, first.issue(t, identity.TokenOptions{Role: identity.Edge, Seeds: []string{"10.0.0.7:7946", first.addr}}))
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("took %s", took)
		}
	})
}
