package api_test

import (
	"slices"
	"strings"
	"testing"

	"grapevine/agent/api"
)

func TestTransactionIsAllOrNothing(t *testing.T) {
	n := startNode(t)
	c := want[api.Committed](t, n.tcp.do("POST", "/v1/txn", `{"then": [
		{"put": {"key": "gateway/routes/Booking", "value": `+booking+`}},
		{"put": {"key": "gateway/routes/short", "value": "path=/short,backends=http://127.0.0.1:5010"}},
		{"put": {"key": "app/text", "value": "hello", "encoding": "text"}},
		{"put": {"key": "app/bytes", "value": "/wA=", "encoding": "base64"}},
		{"put": {"key": "app/json", "value": "hello"}}
	]}`), 200)
	if !c.Succeeded || c.Rev != "1.1" || len(c.Changed) != 5 || c.Applied.Nodes != 1 || len(c.Notices) != 1 {
		t.Errorf("txn answered %+v", c)
	}
	for key, value := range map[string]string{"gateway/routes/booking": booking, "app/text": "hello", "app/bytes": "\xff\x00", "app/json": `"hello"`} {
		if got := n.tcp.do("GET", "/v1/kv/"+key, ""); got.body != value {
			t.Errorf("%s is %q, want %q", key, got.body, value)
		}
	}
	problem(t, n.tcp.do("POST", "/v1/txn", `{"then": [
		{"deleteRange": {"prefix": "app"}},
		{"put": {"key": "gateway/routes/booking", "value": {"path": "/x"}}}
	]}`), 422, "invalid")
	if rev := n.store.View().Rev().String(); rev != "1.1" {
		t.Errorf("revision %s after a refused transaction", rev)
	}
}

func TestTransactionCompares(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/gateway/routes/booking", booking)
	n.socket.do("PUT", "/v1/kv/app/n", `7`)
	for compare, holds := range map[string]bool{
		`{"key":"app/n","target":"modRev","value":"1.2"}`:                           true,
		`{"key":"app/n","target":"modRev","value":2}`:                               true,
		`{"key":"app/n","target":"modRev","op":"<","value":"1.2"}`:                  false,
		`{"key":"app/n","target":"modRev","op":">","value":"1.1"}`:                  true,
		`{"key":"app/n","target":"version","value":1}`:                              true,
		`{"key":"app/n","target":"version","op":"!=","value":1}`:                    false,
		`{"key":"app/n","target":"value","value":7}`:                                true,
		`{"key":"app/n","target":"value","value":8}`:                                false,
		`{"key":"gateway/routes/BOOKING","target":"value","value":` + booking + `}`: true,
		`{"key":"app/n","target":"absent"}`:                                         false,
		`{"key":"app/n","target":"absent","value":false}`:                           true,
		`{"key":"app/none","target":"absent","value":true}`:                         true,
	} {
		c := want[api.Committed](t, n.tcp.do("POST", "/v1/txn?dryRun=1",
			`{"compare":[`+compare+`],"then":[{"delete":{"key":"app/n"}}]}`), 200)
		if c.Succeeded != holds || !c.DryRun {
			t.Errorf("%s: %+v, want %v", compare, c, holds)
		}
	}
}

func TestTransactionTakesElse(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/n", `7`)
	c := want[api.Committed](t, n.tcp.do("POST", "/v1/txn",
		`{"compare":[{"key":"app/n","target":"absent"}],"then":[],"else":[{"delete":{"key":"app/n"}}]}`), 200)
	if c.Succeeded || c.Rev != "1.2" || !slices.Equal(c.Changed, []string{"app/n"}) {
		t.Errorf("txn answered %+v", c)
	}
}

func TestBadTransactions(t *testing.T) {
	n := startNode(t)
	for body, c := range map[string]struct {
		status       int
		code, detail string
	}{
		`{`:             {400, "bad_request", "body"},
		`{} {}`:         {400, "bad_request", "more than one"},
		`{"thn":[]}`:    {400, "bad_request", "thn"},
		`{"then":[{}]}`: {400, "bad_request", "then[0]: want exactly one"},
		`{"else":[{"put":{"key":"a","value":1},"delete":{"key":"a"}}]}`:               {400, "bad_request", "else[0]"},
		`{"then":[{"put":{"key":"a"}}]}`:                                              {422, "invalid", "has no value"},
		`{"then":[{"put":{"key":"a/../b","value":1}}]}`:                               {400, "bad_key", `then[0]: key "a/../b"`},
		`{"then":[{"put":{"key":"gateway/instances/a/b","value":{}}}]}`:               {400, "bad_key", "announce"},
		`{"then":[{"put":{"key":"a","value":"?","encoding":"base64"}}]}`:              {422, "invalid", "base64"},
		`{"then":[{"put":{"key":"a","value":"?","encoding":"rot13"}}]}`:               {422, "invalid", "rot13"},
		`{"then":[{"put":{"key":"a","value":1,"encoding":"text"}}]}`:                  {422, "invalid", "JSON string"},
		`{"then":[{"put":{"key":"gateway/routes/a","value":"x","encoding":"text"}}]}`: {422, "invalid", "free keys"},
		`{"then":[{"delete":{"key":""}}]}`:                                            {400, "bad_key", "empty"},
		`{"then":[{"deleteRange":{"prefix":""}}]}`:                                    {400, "bad_key", "every key"},
		`{"then":[{"deleteRange":{"prefix":"a//b"}}]}`:                                {400, "bad_key", "empty segment"},
		`{"compare":[{"key":"a","target":"size"}]}`:                                   {400, "bad_request", `target "size"`},
		`{"compare":[{"key":"a","target":"absent","op":"<"}]}`:                        {400, "bad_request", `op "<"`},
		`{"compare":[{"key":"a","target":"absent","value":1}]}`:                       {400, "bad_request", "true or false"},
		`{"compare":[{"key":"a","target":"version","value":-1}]}`:                     {400, "bad_request", "version -1"},
		`{"compare":[{"key":"a","target":"modRev","value":"x"}]}`:                     {400, "bad_request", "modRev"},
		`{"compare":[{"key":"a","target":"modRev","op":"~","value":"1"}]}`:            {400, "bad_request", `op "~"`},
	} {
		p := problem(t, n.tcp.do("POST", "/v1/txn", body), c.status, c.code)
		if !strings.Contains(p.Detail, c.detail) || !p.NothingWritten {
			t.Errorf("%s: %+v, want %q", body, p, c.detail)
		}
	}
	if n.store.View().Len() != 0 {
		t.Error("something was written")
	}
}

func TestTransactionTellsAllFaults(t *testing.T) {
	n := startNode(t)
	p := problem(t, n.tcp.do("POST", "/v1/txn", `{"then":[
		{"put":{"key":"gateway/routes/a","value":{"path":"x"}}},
		{"put":{"key":"gateway/routes/b","value":{"timeout":"soon"}}}]}`), 422, "invalid")
	keys := map[string]bool{}
	for _, fault := range p.Faults {
		keys[fault.Key] = true
	}
	if len(keys) != 2 || p.Key != "" {
		t.Errorf("problem %+v", p)
	}
}

// Two keys that are one once their ids are folded: neither value is lost without
// a word.
func TestTransactionWithTwoSpellingsOfAKey(t *testing.T) {
	n := startNode(t)
	p := problem(t, n.tcp.do("POST", "/v1/txn", `{"then": [
		{"put": {"key": "gateway/routes/Z", "value": `+booking+`}},
		{"put": {"key": "gateway/routes/z", "value": `+booking+`}}
	]}`), 400, "bad_key")
	if !strings.Contains(p.Detail, "gateway/routes/Z") || n.store.View().Len() != 0 {
		t.Errorf("detail %q, %d keys", p.Detail, n.store.View().Len())
	}
}

// A patch may spell a field in any way that a value may.
func TestPatchInAnySpelling(t *testing.T) {
	n := startNode(t)
	put := func() {
		n.tcp.do("PUT", "/v1/kv/gateway/routes/r", `{"path":"/r","timeout":"1s","backends":["http://h:1"],"labels":{"a_b":"1"}}`)
	}
	for patch, want := range map[string]string{
		`{"Timeout":null}`:       `{"backends":["http://h:1"],"labels":{"a_b":"1"},"path":"/r"}`,
		`{"timeoutMs":3000}`:     `{"backends":["http://h:1"],"labels":{"a_b":"1"},"path":"/r","timeout":"3s"}`,
		`{"labels":{"ab":"2"}}`:  `{"backends":["http://h:1"],"labels":{"a_b":"1","ab":"2"},"path":"/r","timeout":"1s"}`,
		`{"Labels":{"a_b":"2"}}`: `{"backends":["http://h:1"],"labels":{"a_b":"2"},"path":"/r","timeout":"1s"}`,
	} {
		put()
		if r := n.tcp.do("PATCH", "/v1/kv/gateway/routes/r", patch); r.status != 200 {
			t.Errorf("%s: %d %s", patch, r.status, r.body)
		}
		if got := n.tcp.do("GET", "/v1/kv/gateway/routes/r", ""); got.body != want {
			t.Errorf("%s gives %s; want %s", patch, got.body, want)
		}
	}
	put()
	problem(t, n.tcp.do("PATCH", "/v1/kv/gateway/routes/r", `{"Timeout":"1s","timeout":"2s"}`), 422, "invalid")
}
