package api_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os/user"
	"slices"
	"strings"
	"testing"

	"grapevine/agent/api"
	"grapevine/kv"
)

func TestValueIsReadAsItWasStored(t *testing.T) {
	n := startNode(t)
	put := want[api.Written](t, n.tcp.do("PUT", "/v1/kv/gateway/routes/booking?message=first", booking), 200)
	if put.Rev != "1.1" || string(put.Value) != booking || put.Applied.Nodes != 1 || put.Applied.Of != 1 || put.DryRun {
		t.Errorf("put answered %+v", put)
	}

	got := n.tcp.do("GET", "/v1/kv/gateway/routes/booking", "")
	if got.status != 200 || got.body != booking || got.header.Get("ETag") != `"1.1"` || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("get answered %+v", got)
	}

	e := want[api.Envelope](t, n.tcp.do("GET", "/v1/kv/gateway/routes/booking?detail=1", ""), 200)
	if e.Key != "gateway/routes/booking" || string(e.Value) != booking || e.Class != "operator" || e.ModRev != "1.1" ||
		e.CreateRev != "1.1" || e.Version != 1 || !strings.HasPrefix(e.By, "tcp:127.0.0.1:") || e.Reason != "first" || e.At.IsZero() {
		t.Errorf("envelope %+v", e)
	}
}

func TestShorthandAndYAMLBecomeCanonicalJSON(t *testing.T) {
	n := startNode(t)
	for _, in := range []struct {
		door        *client
		contentType string
		body        string
	}{
		{n.tcp, "application/json", `{"Path": "/booking/{**catch-all}", "Backends": ["http://127.0.0.1:5010"]}`},
		{n.tcp, "application/yaml", "path: /booking/{**catch-all}\nbackends:\n  - http://127.0.0.1:5010\n"},
		{n.tcp, "application/x-grapevine-shorthand; charset=utf-8", "path=/booking/{**catch-all},backends=http://127.0.0.1:5010"},
		{n.socket, "", "path=/booking/{**catch-all},backends=http://127.0.0.1:5010"},
		{n.socket, "application/x-www-form-urlencoded", "path=/booking/{**catch-all},backends=http://127.0.0.1:5010"},
		{n.socket, "text/plain", booking},
	} {
		put := want[api.Written](t, in.door.do("PUT", "/v1/kv/gateway/routes/booking", in.body, "Content-Type: "+in.contentType), 200)
		if string(put.Value) != booking {
			t.Errorf("%s: stored %s, want %s", in.contentType, put.Value, booking)
		}
	}
}

func TestIdIsFoldedWithANotice(t *testing.T) {
	n := startNode(t)
	put := want[api.Written](t, n.tcp.do("PUT", "/v1/kv/gateway/routes/Booking", booking), 200)
	if put.Key != "gateway/routes/booking" || len(put.Notices) != 1 {
		t.Errorf("put answered %+v", put)
	}
	if got := n.tcp.do("GET", "/v1/kv/gateway/routes/BOOKING", ""); got.body != booking {
		t.Errorf("get answered %+v", got)
	}
}

func TestFreeKeyTakesAnyBytes(t *testing.T) {
	n := startNode(t)
	for _, in := range []struct {
		body     string
		value    string
		encoding api.Encoding
		media    string
	}{
		{"hello", `"hello"`, api.EncodingText, "application/octet-stream"},
		{`"hello"`, `"hello"`, "", "application/json"},
		{"<b> & \n", `"<b> & \n"`, api.EncodingText, "application/octet-stream"},
		{"\xff\x00", `"` + base64.StdEncoding.EncodeToString([]byte("\xff\x00")) + `"`, api.EncodingBase64, "application/octet-stream"},
		{`{"big":12345678901234567890}`, `{"big":12345678901234567890}`, "", "application/json"},
		{"", `""`, api.EncodingText, "application/octet-stream"},
	} {
		put := want[api.Written](t, n.tcp.do("PUT", "/v1/kv/app/x", in.body, "Content-Type: application/octet-stream"), 200)
		if string(put.Value) != in.value || put.Encoding != in.encoding {
			t.Errorf("%q: put answered %s %q", in.body, put.Value, put.Encoding)
		}
		got := n.tcp.do("GET", "/v1/kv/app/x", "")
		if got.body != in.body || got.header.Get("Content-Type") != in.media {
			t.Errorf("%q: get answered %q as %s", in.body, got.body, got.header.Get("Content-Type"))
		}
		e := want[api.Envelope](t, n.tcp.do("GET", "/v1/kv/app/x?detail", ""), 200)
		if string(e.Value) != in.value || e.Encoding != in.encoding {
			t.Errorf("%q: envelope has %s %q", in.body, e.Value, e.Encoding)
		}
	}
	p := problem(t, n.tcp.do("PUT", "/v1/kv/app/x", "hello"), 422, "invalid")
	if p.Key != "app/x" || !strings.Contains(p.Detail, "not JSON") {
		t.Errorf("problem %+v", p)
	}
}

func TestPastIsRead(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/x", "1")
	n.socket.do("PUT", "/v1/kv/app/x", "2")
	n.socket.do("DELETE", "/v1/kv/app/x", "")
	for at, value := range map[string]string{"1": "1", "1.2": "2"} {
		if got := n.tcp.do("GET", "/v1/kv/app/x?at="+at, ""); got.body != value {
			t.Errorf("at %s: %+v", at, got)
		}
	}
	problem(t, n.tcp.do("GET", "/v1/kv/app/x", ""), 404, "not_found")
	l := want[api.Listing](t, n.tcp.do("GET", "/v1/kv?at=1.2", ""), 200)
	if l.Rev != "1.2" || len(l.Entries) != 1 {
		t.Errorf("list answered %+v", l)
	}
}

func TestListIsOfOneRevision(t *testing.T) {
	n := startNode(t)
	for _, key := range []string{"app", "app/a", "app/b", "app-dev/a"} {
		n.socket.do("PUT", "/v1/kv/"+key, "x <y>")
	}
	for prefix, keys := range map[string][]string{
		"":     {"app", "app-dev/a", "app/a", "app/b"},
		"app":  {"app", "app/a", "app/b"},
		"app/": {"app/a", "app/b"},
		"none": {},
	} {
		got := want[struct {
			Rev  string
			Keys []string
		}](t, n.tcp.do("GET", "/v1/kv?keys=1&prefix="+prefix, ""), 200)
		slices.Sort(got.Keys)
		if got.Rev != "1.4" || got.Keys == nil || !slices.Equal(got.Keys, keys) {
			t.Errorf("prefix %q: %+v, want %q", prefix, got, keys)
		}
		l := want[api.Listing](t, n.tcp.do("GET", "/v1/kv?prefix="+prefix, ""), 200)
		if len(l.Entries) != len(keys) || l.Entries == nil {
			t.Errorf("prefix %q: %+v", prefix, l)
		}
	}
}

func TestDeleteTakesSegmentsAndNotLetters(t *testing.T) {
	n := startNode(t)
	for _, key := range []string{"app", "app/a", "app/a/b", "app-dev"} {
		n.socket.do("PUT", "/v1/kv/"+key, "1")
	}
	d := want[api.Deleted](t, n.tcp.do("DELETE", "/v1/kv/app/?recurse=1&dryRun=1", ""), 200)
	if d.Deleted != 2 || !d.DryRun || d.Rev != "1.5" || n.store.View().Len() != 4 {
		t.Errorf("dry run answered %+v", d)
	}
	d = want[api.Deleted](t, n.tcp.do("DELETE", "/v1/kv/app?recurse=1", ""), 200)
	if d.Deleted != 3 || d.Rev != "1.5" || d.Key != "app" {
		t.Errorf("delete answered %+v", d)
	}
	l := want[api.Listing](t, n.tcp.do("GET", "/v1/kv?keys=1", ""), 200)
	if !slices.Equal(l.Keys, []string{"app-dev"}) {
		t.Errorf("left %q", l.Keys)
	}
	problem(t, n.tcp.do("DELETE", "/v1/kv/app?recurse=1", ""), 404, "not_found")
	problem(t, n.tcp.do("DELETE", "/v1/kv/app", ""), 404, "not_found")
	problem(t, n.tcp.do("DELETE", "/v1/kv/?recurse=1", ""), 400, "bad_key")
	want[api.Deleted](t, n.tcp.do("DELETE", "/v1/kv/app-dev", ""), 200)
}

func TestDryRunWritesNothing(t *testing.T) {
	n := startNode(t)
	put := want[api.Written](t, n.tcp.do("PUT", "/v1/kv/gateway/routes/booking?dryRun=1", booking), 200)
	if !put.DryRun || put.Applied.Nodes != 0 || string(put.Value) != booking {
		t.Errorf("put answered %+v", put)
	}
	problem(t, n.tcp.do("PUT", "/v1/kv/gateway/routes/booking?dryRun", booking, `If-Match: "7"`), 412, "conflict")
	problem(t, n.tcp.do("PUT", "/v1/kv/gateway/routes/booking?dryRun=true", `{"path":"/x"}`), 422, "invalid")
	if n.store.View().Rev().Rev != 0 {
		t.Errorf("revision %s", n.store.View().Rev())
	}
}

// A misspelt dry run must not write.
func TestUnknownParameterIsRefused(t *testing.T) {
	n := startNode(t)
	for _, query := range []string{"dry-run=1", "dryrun=1", "dryRun=yes", "dryRun=1&dryRun=0", "wait=some", "wait=101%25", "timeout=5", "timeout=-1s", "timeout=1h", "dryRun=%zz", "a;b"} {
		p := problem(t, n.tcp.do("PUT", "/v1/kv/app/x?"+query, "1"), 400, "bad_request")
		if !p.NothingWritten {
			t.Errorf("%s: %+v", query, p)
		}
	}
	if n.store.View().Len() != 0 {
		t.Error("something was written")
	}
}

func TestMessageIsOneLine(t *testing.T) {
	n := startNode(t)
	for _, message := range []string{"a%0ab", "a%1b[2J", "%ff", strings.Repeat("a", 1025)} {
		problem(t, n.tcp.do("PUT", "/v1/kv/app/x?message="+message, "1"), 400, "bad_request")
		problem(t, n.tcp.do("PUT", "/v1/kv/app/x?dryRun&message="+message, "1"), 400, "bad_request")
	}
	if r := n.tcp.do("PUT", "/v1/kv/app/x?message=%E2%9C%93+"+strings.Repeat("a", 1000), "1"); r.status != 200 {
		t.Errorf("put answered %+v", r)
	}
}

func TestRefusedKeys(t *testing.T) {
	n := startNode(t)
	for key, hint := range map[string]string{
		"gateway/route/x":              "routes",
		"gateway/routes/a/b":           "gateway/routes/{routeId}",
		"gateway/instances/a/b":        "announce",
		"gateway/certs/x":              "later version",
		"_meta/x":                      "read-only",
		"app/" + "%20":                 `" "`,
		strings.Repeat("a/", 16) + "a": "17 segments",
	} {
		for _, method := range []string{"PUT", "PATCH", "DELETE"} {
			p := problem(t, n.tcp.do(method, "/v1/kv/"+key, "{}"), 400, "bad_key")
			if !strings.Contains(p.Detail, hint) || !p.NothingWritten || p.Key == "" {
				t.Errorf("%s %s: %+v, want a hint at %s", method, key, p, hint)
			}
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	n := startNode(t)
	p := problem(t, n.tcp.do("PUT", "/v1/kv/gateway/routes/booking", `{"path":"x","timeout":"soon","backend":"http://a"}`), 422, "invalid")
	if len(p.Faults) < 3 || p.Key != "gateway/routes/booking" {
		t.Errorf("problem %+v", p)
	}
}

func TestAuthorIsWhoConnected(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/x", "1")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := n.store.View().Get("app/x")
	if entry.By != me.Username {
		t.Errorf("author %q, want %q", entry.By, me.Username)
	}
}

func TestLargeValuesAreRefused(t *testing.T) {
	n := startNode(t)
	most, tooMuch := strings.Repeat("a", kv.MaxValueBytes), strings.Repeat("a", kv.MaxValueBytes+1)
	want[api.Written](t, n.tcp.do("PUT", "/v1/kv/app/x", most, "Content-Type: application/octet-stream"), 200)
	problem(t, n.tcp.do("PUT", "/v1/kv/app/x", tooMuch, "Content-Type: application/octet-stream"), 413, "too_large")
	body, err := json.Marshal(map[string]any{"then": []any{map[string]any{"put": map[string]any{"key": "app/x", "value": tooMuch}}}})
	if err != nil {
		t.Fatal(err)
	}
	if r := n.tcp.do("POST", "/v1/txn", string(body)); r.status != 422 && r.status != 413 {
		t.Errorf("txn answered %d", r.status)
	}
}

func TestHeadHasNoBody(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/x", "1")
	for _, path := range []string{"/v1/kv/app/x", "/v1/kv", "/v1/status", "/v1/watch"} {
		if r := n.tcp.do(http.MethodHead, path, ""); r.status != 200 || r.body != "" {
			t.Errorf("HEAD %s answered %+v", path, r)
		}
	}
}

// What nodes keep about themselves can be read, and is not written by this way: it would make tokens of any role.
func TestKeysOfTheNodesAreNotWritten(t *testing.T) {
	n := startNode(t)
	for _, in := range [][3]string{
		{"PUT", "/v1/kv/cluster/tokens/0123456789abcdef", `{}`},
		{"PUT", "/v1/kv/cluster", `{}`},
		{"PATCH", "/v1/kv/cluster/keyring", `{}`},
		{"DELETE", "/v1/kv/cluster/denied/01h", ""},
		{"DELETE", "/v1/kv/cluster/?recurse=1", ""},
		{"DELETE", "/v1/kv/cluster/denied?recurse=1", ""},
		{"POST", "/v1/txn", `{"then":[{"put":{"key":"cluster/denied/01h","value":{}}}]}`},
		{"POST", "/v1/txn", `{"then":[{"deleteRange":{"prefix":"cluster/"}}]}`},
		{"POST", "/v1/txn", `{"then":[],"else":[{"delete":{"key":"cluster/tokens/0123456789abcdef"}}]}`},
	} {
		got := n.tcp.do(in[0], in[1], in[2], "Content-Type: application/json")
		if got.status != 400 || !strings.Contains(got.body, "the nodes' own") {
			t.Errorf("%s %s %s: %d %s", in[0], in[1], in[2], got.status, got.body)
		}
	}
	if rev := n.store.View().Rev(); rev.Rev != 0 {
		t.Errorf("something was written: %s", rev)
	}
	want[api.Written](t, n.tcp.do("PUT", "/v1/kv/clusters/mine", `{}`), 200)
	n.tcp.do("GET", "/v1/kv?prefix=cluster/", "")
}
