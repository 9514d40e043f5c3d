package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stream is a connection that announces an instance.
type stream struct {
	t      *testing.T
	lines  *bufio.Scanner
	status int
	detail string // of a refusal
}

// announces announces an instance of a route at a path, over the socket, with a token or none.
func (p *process) announces(route, id, path, token string) *stream {
	p.t.Helper()
	body := fmt.Sprintf(`{"routeId":%q,"instanceId":%q,"path":%q,"address":"http://%s.test:1"}`, route, id, path, id)
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://agent/v1/announce", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := p.client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { response.Body.Close() })
	s := &stream{t: p.t, lines: bufio.NewScanner(response.Body), status: response.StatusCode}
	if s.status != http.StatusOK {
		var problem struct{ Code, Detail string }
		if err := json.NewDecoder(response.Body).Decode(&problem); err != nil || problem.Code != "denied" {
			p.t.Fatalf("refused with %d %+v, %v", s.status, problem, err)
		}
		s.detail = problem.Detail
		return s
	}
	s.await("accepted")
	return s
}

// await reads until an event, and gives its line.
func (s *stream) await(event string) string {
	s.t.Helper()
	for s.lines.Scan() {
		if strings.Contains(s.lines.Text(), fmt.Sprintf(`"event":%q`, event)) {
			return s.lines.Text()
		}
	}
	s.t.Fatalf("the stream ended without %s: %v", event, s.lines.Err())
	return ""
}

// hashOf is a token as gateway/config/announce names it.
func hashOf(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

func (p *process) setPolicy(value string) {
	p.t.Helper()
	if code, _, said := p.cli("config", "set", "gateway/config/announce", value); code != 0 {
		p.t.Fatalf("config set: exit %d, %s", code, said)
	}
}

// What a policy refuses, and with which words; what becomes of what is announced already when it changes.
func TestAnnouncementPolicy(t *testing.T) {
	p := startAgent(t, t.TempDir())
	open := p.announces("shop", "open", "/shop/{**rest}", "")
	granted := p.announces("warehouse", "granted", "/warehouse/{**rest}", "secret")
	p.setPolicy(fmt.Sprintf(`{"default":"deny","grants":[{"token":%q,"routes":["ware*"],"paths":["/warehouse/**"]}]}`, hashOf("secret")))

	if line := open.await("withdrawn"); !strings.Contains(line, `gateway/config/announce grants nobody without a token route \"shop\" at path \"/shop/{**rest}\"`) {
		t.Errorf("withdrawn with %s", line)
	}
	if open.lines.Scan() {
		t.Errorf("more after the last event: %s", open.lines.Text())
	}
	if got := p.listed(); len(got) != 1 || got["http://granted.test:1"] != "warehouse/granted healthy" {
		t.Errorf("listed %v; want the granted one as before", got)
	}
	for _, c := range []struct{ route, path, token, detail string }{
		{"warehouse", "/warehouse/{**rest}", "", `grants nobody without a token route "warehouse"`},
		{"warehouse", "/warehouse/{**rest}", "guessed", `grants nobody with the token of hash ` + hashOf("guessed")[:12] + `… route "warehouse"`},
		{"shop", "/warehouse/{**rest}", "secret", `route "shop" at path "/warehouse/{**rest}"`},
		{"warehouse", "/shop/{**rest}", "secret", `route "warehouse" at path "/shop/{**rest}"`},
	} {
		s := p.announces(c.route, "new", c.path, c.token)
		if s.status != http.StatusForbidden || !strings.Contains(s.detail, c.detail) {
			t.Errorf("%s at %s with %q: %d %s; want 403 %s", c.route, c.path, c.token, s.status, s.detail, c.detail)
		}
	}
	// Nothing of that has touched the one that is there.
	another := p.announces("warehouse2", "another", "/warehouse/two/{**rest}", "secret")
	if got := p.listed(); len(got) != 2 || got["http://granted.test:1"] != "warehouse/granted healthy" {
		t.Errorf("listed %v", got)
	}
	// Without the grant nobody is left, and without the policy everybody may.
	p.setPolicy(`{"default":"deny"}`)
	granted.await("withdrawn")
	another.await("withdrawn")
	eventually(t, "nobody is left", func() bool { return len(p.listed()) == 0 })
	if code, _, said := p.cli("config", "delete", "gateway/config/announce"); code != 0 {
		t.Fatalf("config delete: exit %d, %s", code, said)
	}
	p.announces("shop", "open", "/shop/{**rest}", "").await("applied")
}

// Who runs agent announce is told, by its exit code too.
func TestAnnouncementPolicyOfTheWrapper(t *testing.T) {
	dir := t.TempDir()
	p := startAgent(t, dir)
	p.setPolicy(fmt.Sprintf(`{"default":"deny","grants":[{"token":%q}]}`, hashOf("secret")))
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--addr", "unix://" + p.socket, "--route", "x", "--path", "/x", "--address", "http://127.0.0.1:1"}
	refused := startWrapped(t, nil, append(flags, "--", "sleep", "60")...)
	if code := refused.code(); code != 125 || !strings.Contains(refused.output.String(), "gateway/config/announce grants nobody without a token") {
		t.Errorf("exit %d", code)
	}
	granted := startWrapped(t, nil, append(append([]string{"--token-file", token}, flags...), "--", "sleep", "60")...)
	eventually(t, "the instance is announced", func() bool { return len(p.listed()) == 1 })
	// A policy takes the instance away, and does not end a process that may do more than answer requests.
	p.setPolicy(`{"default":"deny"}`)
	eventually(t, "the instance is gone", func() bool { return len(p.listed()) == 0 })
	eventually(t, "its wrapper says so", func() bool { return strings.Contains(granted.output.String(), "grants nobody with the token") })
	select {
	case <-granted.exited:
		t.Error("the command has ended")
	default:
	}
}

// Policies that mean nothing are refused with the field, and change nothing.
func TestBadAnnouncementPolicies(t *testing.T) {
	p := startAgent(t, t.TempDir())
	before := p.awaitStatus().Rev
	for value, want := range map[string]string{
		`{"default":"maybe"}`:                                        "default",
		`{"grants":[{"routes":["x"]}]}`:                              "grants[0].token",
		`{"grants":[{"token":"secret"}]}`:                            "grants[0].token",
		`{"default":"deny","linger":"0s"}`:                           "linger",
		`{"default":"deny","granted":[]}`:                            "granted",
		`{"grants":[{"token":"` + hashOf("x") + `","paths":["x"]}]}`: "grants[0].paths",
	} {
		code, _, said := p.cli("config", "set", "gateway/config/announce", value)
		if code != 3 || !strings.Contains(said, "gateway/config/announce") || !strings.Contains(said, want) {
			t.Errorf("%s: exit %d, %s; want 3 and %s", value, code, said, want)
		}
	}
	if rev := p.awaitStatus().Rev; rev != before {
		t.Errorf("revision %s, before %s", rev, before)
	}
}

// The file's policy holds where no operator has written one.
func TestAnnouncementPolicyOfAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(file, []byte("config: {announce: {default: deny}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startAgent(t, dir, "--config", file)
	if s := p.announces("shop", "one", "/shop", ""); s.status != http.StatusForbidden {
		t.Errorf("the file's policy: %d", s.status)
	}
	p.setPolicy(`{"default":"allow"}`)
	one := p.announces("shop", "one", "/shop", "")
	if one.status != http.StatusOK {
		t.Errorf("the operator's policy over the file's: %d", one.status)
	}
	if code, _, said := p.cli("config", "delete", "gateway/config/announce"); code != 0 {
		t.Fatalf("config delete: exit %d, %s", code, said)
	}
	one.await("withdrawn") // the file's shows through
}
