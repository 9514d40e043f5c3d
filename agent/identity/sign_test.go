package identity_test

import (
	"testing"

	"grapevine/agent/identity"
	"grapevine/kv"
)

// signed is a head that the authority vouches for.
func signed(a *identity.Authority, rev uint64) kv.Head {
	head := kv.Head{Rev: kv.Rev{Epoch: 1, Rev: rev}, EpochID: [16]byte{1}, Index: 5, Hash: kv.Hash{2, 3}}
	head.Signature = a.Sign(head.SigningBytes())
	return head
}

func TestHeadsAreVouchedFor(t *testing.T) {
	id, other := found(t, 1), found(t, 2)
	head := signed(id.Authority(), 4)
	if err := id.Verify(head); err != nil {
		t.Fatal(err)
	}
	head.Index++ // which a rebuilt log changes
	if err := id.Verify(head); err != nil {
		t.Error("with another index:", err)
	}
	for _, test := range []struct {
		change func(*kv.Head)
		want   string
	}{
		{func(h *kv.Head) { h.Rev.Rev++ }, "head 1.5 (hash 0203000000000000): its signature is not by the voter key"},
		{func(h *kv.Head) { h.Rev.Epoch++ }, "head 2.4"},
		{func(h *kv.Head) { h.EpochID[0]++ }, "not by the voter key"},
		{func(h *kv.Head) { h.Hash[31]++ }, "not by the voter key"},
		{func(h *kv.Head) { h.Signature[0]++ }, "not by the voter key"},
		{func(h *kv.Head) { h.Signature = [64]byte{} }, "head 1.4 (hash 0203000000000000): carries no signature"},
		{func(h *kv.Head) { h.Signature = other.Authority().Sign(h.SigningBytes()) }, "of cluster " + id.Cluster().ID().String()},
	} {
		changed := head
		test.change(&changed)
		wantError(t, id.Verify(changed), test.want)
	}
}
