package api_test

import (
	"strings"
	"testing"
)

func TestConditions(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/there", "1") // 1.1
	for _, c := range []struct {
		key, header string
		status      int
		code        string
	}{
		{"there", `If-Match: "1.1"`, 200, ""},
		{"there", `If-Match: 1.1`, 200, ""},
		{"there", `If-Match: "1"`, 200, ""},
		{"there", `If-Match: *`, 200, ""},
		{"there", `If-Match: "1.2"`, 412, "conflict"},
		{"there", `If-Match: "2.1"`, 412, "conflict"},
		{"there", `If-None-Match: *`, 412, "conflict"},
		{"there", `If-Match: W/"1.1"`, 400, "bad_request"},
		{"there", `If-Match: "1.1", "1.2"`, 400, "bad_request"},
		{"there", `If-Match: latest`, 400, "bad_request"},
		{"there", `If-None-Match: "1.1"`, 400, "bad_request"},
		{"absent", `If-None-Match: *`, 200, ""},
		{"absent", `If-Match: "1.1"`, 412, "conflict"},
		{"absent", `If-Match: *`, 412, "conflict"},
	} {
		for method, body := range map[string]string{"PUT": "2", "DELETE": ""} {
			r := n.tcp.do(method, "/v1/kv/app/"+c.key+"?dryRun=1", body, c.header)
			switch {
			case method == "DELETE" && c.key == "absent" && c.status == 200:
				problem(t, r, 404, "not_found")
			case c.code != "":
				p := problem(t, r, c.status, c.code)
				if c.status == 412 && c.key == "there" && p.Rev != "1.1" {
					t.Errorf("%s %s: conflict names revision %q", method, c.header, p.Rev)
				}
			case r.status != c.status:
				t.Errorf("%s %s with %s answered %d: %s", method, c.key, c.header, r.status, r.body)
			}
		}
	}
	if rev := n.store.View().Rev().String(); rev != "1.1" {
		t.Errorf("revision %s", rev)
	}
}

func TestConditionIsAboutOneKey(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/x", "1")
	p := problem(t, n.tcp.do("DELETE", "/v1/kv/app?recurse=1", "", `If-Match: "1.1"`), 400, "bad_request")
	if !strings.Contains(p.Detail, "/v1/txn") {
		t.Errorf("problem %+v", p)
	}
}

func TestPatchHonoursItsCondition(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/x", "{}")
	problem(t, n.tcp.do("PATCH", "/v1/kv/app/x", `{"a":1}`, `If-Match: "1.9"`), 412, "conflict")
	if r := n.tcp.do("PATCH", "/v1/kv/app/x", `{"a":1}`, `If-Match: "1.1"`); r.status != 200 {
		t.Errorf("patch answered %+v", r)
	}
}
