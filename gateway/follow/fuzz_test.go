package follow_test

import (
	"testing"

	"grapevine/gateway/follow"
	"grapevine/kv"
)

// No stream breaks a mirror, or brings something into it that no gateway reads.
func FuzzTell(f *testing.F) {
	whole := state("1.4", here, put("gateway/routes/a", "1.4", "1"), instance("1", 1, ""))
	for _, seed := range []string{
		"", whole, whole[:80], whole + last("1.5", gone("gateway/routes/a")), whole + "event: reset\ndata: {}\n\n",
		whole + "event: end\ndata: {\"reason\":\"x\"}\n\n", whole + whole, whole + last("1.5", instance("1", 2, `,"orphaned":true`)),
		whole + last("1.5", "event: put\ndata: {\"key\":\"gateway/routes/c\",\"modRev\":\"1.5\",\"value\":\"eA==\",\"encoding\":\"base64\"}\n\n"),
		"data: a\ndata: b\r\n\r\nid\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		mirror := kv.NewMirror()
		if err := follow.Tell(mirror, stream); err == nil {
			t.Error("a stream has no end")
		}
		for entry := range mirror.View().Under("") {
			if _, err := kv.ParseKey(string(entry.Key)); err != nil || kv.Ephemeral(entry.Key) != (entry.Own != nil) || !kv.Under("gateway/", entry.Key) {
				t.Errorf("it shows %+v (%v)", entry, err)
			}
		}
	})
}
