package kv

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// What is signed is fixed, to the byte: voters of different versions sign and
// check the same.
func TestSigningBytes(t *testing.T) {
	head := Head{Rev: Rev{1, 2}, EpochID: [16]byte{3, 15: 4}, Index: 5, Hash: Hash{6, 31: 7}, Signature: [64]byte{8}}
	want := "67726170657669" + "6e65206865616400" + // "grapevine head", 0
		"00000001" + "0000000000000002" +
		"03000000000000000000000000000004" +
		"0600000000000000000000000000000000000000000000000000000000000007"
	got := head.SigningBytes()
	if hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
	for name, change := range map[string]func(*Head){
		"epoch":    func(h *Head) { h.Rev.Epoch++ },
		"revision": func(h *Head) { h.Rev.Rev++ },
		"epoch id": func(h *Head) { h.EpochID[7]++ },
		"hash":     func(h *Head) { h.Hash[7]++ },
	} {
		other := head
		change(&other)
		if bytes.Equal(other.SigningBytes(), got) {
			t.Errorf("the %s is not signed", name)
		}
	}
	head.Index++
	head.Signature[1]++
	if !bytes.Equal(head.SigningBytes(), got) {
		t.Error("the raft index or the signature itself is signed")
	}
}
