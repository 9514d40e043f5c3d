package identity_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"testing"
	"time"

	"grapevine/agent/identity"
)

func TestInspectTellsWhatIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := n.cluster()
		cluster := voter.id.Cluster()
		ca, err := identity.Inspect(cluster.Certificate())
		if err != nil || ca.Kind != "ca" || ca.Cluster != cluster.ID().String() || ca.Fingerprint != cluster.Fingerprint().String() ||
			len(ca.VoterKey) != 64 || ca.NotAfter.Year() != 9999 {
			t.Errorf("CA %+v, %v", ca, err)
		}
		key := edge.id.Self().Key
		c := edge.id.Certificate()
		if c.Kind != "node" || c.Node != nodeID(2) || c.Role != identity.Edge || c.Cluster != ca.Cluster ||
			c.Key != hex.EncodeToString(key[:]) || !c.NotAfter.Equal(edge.id.Expires()) || !c.NotBefore.Equal(time.Now().Add(-time.Hour)) {
			t.Errorf("node %+v", c)
		}
		list, err := identity.InspectPEM(append(edge.id.CertificatePEM(), cluster.CertificatePEM()...))
		if err != nil || len(list) != 2 || list[0].Node != c.Node || list[1].Kind != "ca" {
			t.Errorf("%+v, %v", list, err)
		}
		_, err = identity.InspectPEM([]byte("hello"))
		wantError(t, err, "no certificate")
		_, err = identity.Inspect([]byte("hello"))
		wantError(t, err, "certificate")
	})
}

func TestProvisionMakesAWholeNode(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := n.cluster()
		for _, role := range []identity.Role{identity.Edge, identity.Voter} {
			data, err := voter.id.Provision(nodeID(5), role)
			if err != nil {
				t.Fatal(err)
			}
			o := identity.Options{Path: identityFile(t), Node: nodeID(5)}
			if err := os.WriteFile(o.Path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			id, err := identity.Open(o)
			if err != nil || id.Role() != role || (id.Authority() != nil) != (role == identity.Voter) {
				t.Fatalf("%v, %v", id, err)
			}
			if o := shake(t, voter.id, protocols, as(id, identity.ProtocolPeer)); o.server != nil || o.client != nil {
				t.Error(o.server, o.client)
			}
		}
		_, err := edge.id.Provision(nodeID(5), identity.Edge)
		wantError(t, err, "only a voter")
		_, err = voter.id.Provision("x", identity.Edge)
		wantError(t, err, `node id "x"`)
		_, err = voter.id.Provision(nodeID(5), "king")
		wantError(t, err, `role "king"`)
	})
}

func TestTokensAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		first := n.settle(1, found(t, 1), nil)
		records := map[string][]byte{}
		var ids []string
		for _, o := range []identity.TokenOptions{{Role: identity.Edge, Life: time.Minute}, {Role: identity.Voter, Uses: 3}} {
			token := first.issue(t, o)
			record, _ := first.token(token.ID())
			used, _, err := record.UseBy(nodeID(2), identity.PublicKey{}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			records[record.ID] = used.Encode()
			ids = append(ids, record.ID)
			if info := token.Info(time.Now()); info.ID != record.ID || info.State != identity.TokenLive || fmt.Sprint(info.Seeds) != "[10.0.0.1:7946]" {
				t.Errorf("token %+v", info)
			}
			pass(time.Minute)
		}
		records["bad"] = []byte("x")
		list, err := identity.ListTokens(records, time.Now())
		wantError(t, err, "cluster/tokens/bad")
		if len(list) != 2 || list[0].ID != ids[1] || list[0].UsesLeft != 2 || fmt.Sprint(list[0].UsedBy) != "["+nodeID(2)+"]" ||
			list[0].State != identity.TokenLive || list[1].State != identity.TokenExpired || list[1].Uses != 0 {
			t.Errorf("%+v", list)
		}
	})
}
