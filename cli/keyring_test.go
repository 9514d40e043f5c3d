package cli

import (
	"testing"

	"grapevine/agent/api"
)

func TestKeyring(t *testing.T) {
	under := api.Keyring{Generation: 2, Phase: "use", Again: true, Keys: []string{"bb", "aa"}, Nodes: []api.KeyringNode{
		{Node: "edge-1", Uses: "bb", Has: []string{"bb", "aa"}, Ready: true},
		{Node: "edge-2", Uses: "aa", Has: []string{"aa", "bb"}},
		{Node: "edge-3", Problem: "it does not answer"},
	}}
	const table = "" +
		"NODE    USES  READS  READY\n" +
		"edge-1  bb    bb,aa  yes\n" +
		"edge-2  aa    aa,bb  -\n" +
		"edge-3  -     -      -      it does not answer\n"
	const state = "rotation 2 is under way: nodes use the next key, and forget the last one when all do; waiting for edge-2, edge-3; another rotation follows"
	s := newPrepared(t, map[string]any{"GET /v1/keyring": under, "POST /v1/keyring/rotate": under})
	s.check(t, "keyring list", 0, table, state+"\n", "GET /v1/keyring")
	s.check(t, "keyring list -q -o name", 0, "bb\naa\n", "", "GET /v1/keyring")
	s.check(t, "keyring rotate", 9, table, "error: "+state+". It was done.\ntry: agent keyring list\n", "POST /v1/keyring/rotate {}")

	done := api.Keyring{Generation: 1, Phase: "done", Keys: []string{"bb"}, Nodes: []api.KeyringNode{{Node: "edge-1", Uses: "bb", Has: []string{"bb"}, Ready: true}}}
	s = newPrepared(t, map[string]any{"POST /v1/keyring/rotate": done})
	s.check(t, "keyring rotate", 0, "NODE    USES  READS  READY\nedge-1  bb    bb     yes\n", "key bb is the only one, after 1 rotation\n", "POST /v1/keyring/rotate {}")
}
