package api

import (
	"strings"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// readable is a key as it is stored: ids are folded, and a key that can't be there is refused by name.
func readable(s string) (kv.Key, error) {
	if _, err := kv.ParseKey(s); err != nil {
		return "", err
	}
	canonical, err := spec.CanonicalKey(s)
	switch {
	case err == nil:
		return kv.Key(canonical), nil
	case spec.Ephemeral(s): // the nodes write it, and everybody may read it
		return kv.Key(s), nil
	}
	return "", fail(codeBadKey, "%v", err).about(s)
}

// writable is a key that an operator may write.
func writable(s string) (kv.Key, error) {
	key, err := readable(s)
	switch {
	case err != nil:
		return "", err
	case spec.Ephemeral(string(key)):
		if _, err := spec.CanonicalKey(s); err != nil {
			return "", fail(codeBadKey, "%v", err).about(s)
		}
		return "", fail(codeBadKey, "key %q: lives as long as the connection of who announces it, so announce it instead of writing it", s).about(s)
	}
	return key, checkOwner(s)
}

// ownPrefix is where the nodes keep what is about themselves. Who could write there could make tokens of any role, and
// let back in who was shut out, without a word in the history that says so.
const ownPrefix = "cluster"

// checkOwner refuses keys and prefixes that are the nodes' own to write.
func checkOwner(s string) error {
	if kv.Under(ownPrefix, kv.Key(strings.TrimSuffix(s, "/"))) {
		return fail(codeBadKey, "key %q: is the nodes' own; agent token, agent force-leave and agent keyring change what is there", s).about(s)
	}
	return nil
}

// deletable is a prefix that an operator may delete.
func deletable(prefix string) error {
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	return checkOwner(prefix)
}
