package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/identity"
	"grapevine/kv"
	"grapevine/kv/gossip"
)

// maxSeeds is how many addresses a token holds at most.
const maxSeeds = 8

// CreateToken: see api.Cluster.
func (n *Node) CreateToken(ctx context.Context, wish api.TokenWish) (secret string, t api.Token, err error) {
	m, err := n.in()
	if err != nil {
		return "", api.Token{}, err
	}
	if err := m.mayGovern(); err != nil {
		return "", api.Token{}, err
	}
	role, err := identity.ParseRole(wish.Role)
	if err != nil {
		return "", api.Token{}, &api.RefusedError{Reason: err.Error()}
	}
	token, record, err := m.id.Cluster().NewToken(identity.TokenOptions{Role: role, Life: wish.TTL, Uses: wish.Uses, Seeds: m.seedAddresses()})
	if err != nil {
		return "", api.Token{}, &api.RefusedError{Reason: err.Error()}
	}
	_, err = n.Propose(ctx, kv.Txn{
		Then: []kv.Op{kv.Put(kv.Key(record.Key()), record.Encode())}, By: api.Author(ctx), At: time.Now(), Message: "join token for role " + string(role),
	})
	if err != nil {
		return "", api.Token{}, err
	}
	return token.Encode(), shown(record), nil
}

// seedAddresses are those of this node and of some others, voters first.
func (m *member) seedAddresses() []string {
	others := m.others()
	slices.SortStableFunc(others, func(a, b gossip.Member) int { return cmp.Compare(a.Role, b.Role) })
	seeds := []string{m.n.advertise.Address.String()}
	for _, other := range others[:min(len(others), maxSeeds-1)] {
		seeds = append(seeds, other.Peer)
	}
	return seeds
}

func shown(r identity.TokenRecord) api.Token {
	return api.Token{
		ID: r.ID, Role: string(r.Role), Created: r.Created, Expires: r.Expires, Uses: r.Uses, Used: len(r.UsedBy),
		State: string(r.State(time.Now())),
	}
}

// Tokens: see api.Cluster.
func (n *Node) Tokens(context.Context) ([]api.Token, error) {
	if _, err := n.in(); err != nil {
		return nil, err
	}
	var tokens []api.Token
	for entry := range n.o.Store.View().Under(identity.TokenPrefixKey) {
		record, err := identity.DecodeTokenRecord(strings.TrimPrefix(string(entry.Key), identity.TokenPrefixKey), entry.Value)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", entry.Key, err)
		}
		tokens = append(tokens, shown(record))
	}
	slices.SortFunc(tokens, func(a, b api.Token) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID)) })
	return tokens, nil
}

// RevokeToken: see api.Cluster.
func (n *Node) RevokeToken(ctx context.Context, id string) error {
	m, err := n.in()
	if err != nil {
		return err
	}
	if err := m.mayGovern(); err != nil {
		return err
	}
	if _, there := n.token(id); !there {
		return &api.NotFoundError{What: "token", Name: id}
	}
	_, err = n.Propose(ctx, kv.Txn{
		Then: []kv.Op{kv.Delete(kv.Key(identity.TokenPrefixKey + id))}, By: api.Author(ctx), At: time.Now(), Message: "token revoked",
	})
	return err
}

// token is the record of a token in this node's store.
func (n *Node) token(id string) (identity.TokenRecord, bool) {
	entry, there := n.o.Store.View().Get(kv.Key(identity.TokenPrefixKey + id))
	if !there {
		return identity.TokenRecord{}, false
	}
	record, err := identity.DecodeTokenRecord(id, entry.Value)
	return record, err == nil
}

// newDoor lets others in.
func (m *member) newDoor() *identity.Door {
	return identity.NewDoor(identity.DoorOptions{
		Self: m.id, Token: m.n.token, Use: m.useToken, Holder: m.holder,
		Seeds: m.seedAddresses, Voters: m.voterAddresses, Forward: m.forwardJoin, Logger: m.n.o.Logger,
	})
}

// holder is the key that a node has proved to this one, so that nobody takes over
// its id.
func (m *member) holder(node string) (identity.PublicKey, bool) {
	key, known := m.keys.Load(node)
	if !known {
		return identity.PublicKey{}, false
	}
	return key.(identity.PublicKey), true
}

func (m *member) voterAddresses() []string {
	var addresses []string
	if m.role() == gossip.Voter {
		addresses = append(addresses, m.n.advertise.Address.String())
	}
	for _, other := range m.others() {
		if other.Role == gossip.Voter {
			addresses = append(addresses, other.Peer)
		}
	}
	return addresses
}

// useToken has the voters count a use of a token, whoever counts another one
// meanwhile.
func (m *member) useToken(ctx context.Context, id, node string, key identity.PublicKey) error {
	for {
		if err := m.n.Read(ctx); err != nil {
			return asRefusal(err)
		}
		entry, there := m.n.o.Store.View().Get(kv.Key(identity.TokenPrefixKey + id))
		if !there {
			return &identity.Refusal{Reason: identity.ReasonUnknown, Message: "the token is not known; it may have been revoked"}
		}
		record, err := identity.DecodeTokenRecord(id, entry.Value)
		if err != nil {
			return err
		}
		used, changed, err := record.UseBy(node, key, time.Now())
		if err != nil || !changed {
			return err
		}
		result, err := m.n.Propose(ctx, kv.Txn{
			Compare: []kv.Compare{{Key: entry.Key, Target: kv.TargetModRev, Rev: entry.ModRev}},
			Then:    []kv.Op{kv.Put(entry.Key, used.Encode())}, At: time.Now(), Message: "join token used by node " + node,
		})
		if err != nil {
			return asRefusal(err)
		}
		if result.Succeeded {
			return nil
		}
	}
}

func asRefusal(err error) error {
	var quorum *api.NoQuorumError
	if errors.As(err, &quorum) {
		return &identity.Refusal{Reason: identity.ReasonNoQuorum, Message: err.Error()}
	}
	return err
}

func (m *member) forwardJoin(ctx context.Context, request *identity.JoinRequest) (*identity.JoinAnswer, error) {
	voter, ok := m.anyVoter()
	if !ok {
		return nil, errors.New("no voter is alive")
	}
	conn, err := m.mux.Dial(ctx, identity.ProtocolJoin, voter.Peer)
	if err != nil {
		return nil, err
	}
	return identity.AskToJoin(ctx, conn, request)
}

// askToRenew has a voter sign this node's next certificate.
func (m *member) askToRenew(ctx context.Context, request []byte) ([]byte, error) {
	voter, ok := m.anyVoter()
	if !ok {
		return nil, errors.New("no voter is alive")
	}
	conn, err := m.mux.Dial(ctx, identity.ProtocolPeer, voter.Peer)
	if err != nil {
		return nil, err
	}
	return identity.AskToRenew(ctx, conn, request)
}
