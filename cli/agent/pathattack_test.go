package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The rule of the guarded routes stands for any that somebody wants to get around. The open route takes everything else.
const attackedRoutes = `
routes:
  admin: {path: "/admin/{**rest}", backends: ["%[1]s"], caseInsensitive: %[4]t}
  open: {path: "/{**rest}", backends: ["%[2]s"]}
  vault: {hosts: [vault.test], path: "/{**rest}", backends: ["%[3]s"]}
  gone: {path: "/gone/{**rest}", respond: {status: 410, body: gone}, caseInsensitive: %[4]t}
  moved: {path: "/moved/{**rest}", redirect: {to: /elsewhere}, caseInsensitive: %[4]t}
`

// attacked is a running agent whose backends tell what they received.
type attacked struct {
	t    *testing.T
	p    *process
	fold bool // the guarded routes take any case
	// conn is kept from one request to the next, nil when there is none.
	conn   net.Conn
	reader *bufio.Reader
}

func startAttacked(t *testing.T, fold bool) *attacked {
	t.Helper()
	a := serveAttacked(t, fmt.Sprintf(attackedRoutes, tellingBackend(t, "admin"), tellingBackend(t, "open"), tellingBackend(t, "vault"), fold))
	a.fold = fold
	return a
}

func serveAttacked(t *testing.T, config string) *attacked {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &attacked{t: t, p: startAgent(t, dir, "--config", file)}
	t.Cleanup(a.hangUp)
	return a
}

func tellingBackend(t *testing.T, name string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, name+" "+r.RequestURI) // bytes as they came, which JSON would not keep
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// outcome is what became of a request: the route that took it and the target that its backend received. Both are empty
// where the gateway refused it; a route that answers by itself has no target.
type outcome struct{ Route, Target string }

// send sends a request line byte by byte as it is, over a connection that is kept.
func (a *attacked) send(target, host string) outcome {
	a.t.Helper()
	response, err := a.try(target, host)
	if err != nil { // the server may have closed the connection that was kept
		a.hangUp()
		response, err = a.try(target, host)
	}
	if err != nil {
		a.t.Fatalf("%q: %v", target, err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatalf("%q: %v", target, err)
	}
	if response.Close {
		a.hangUp()
	}
	var seen outcome
	switch response.StatusCode {
	case 400:
	case 200:
		seen.Route, seen.Target, _ = strings.Cut(string(body), " ")
	case 308:
		seen.Route = "moved"
	case 410:
		seen.Route = "gone"
	default:
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	if err != nil {
		a.t.Fatalf("%q: %v: %s", target, err, body)
	}
	return seen
}

func (a *attacked) try(target, host string) (*http.Response, error) {
	if a.conn == nil {
		conn, err := net.Dial("tcp", a.p.proxy)
		if err != nil {
			return nil, err
		}
		a.conn, a.reader = conn, bufio.NewReader(conn)
	}
	a.conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(a.conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, host); err != nil {
		return nil, err
	}
	return http.ReadResponse(a.reader, nil)
}

func (a *attacked) hangUp() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

// pathAttacks are targets and the route that must take each; "" means that it is refused. Folded is that route where the
// guarded ones take any case, if it is another.
var pathAttacks = []struct{ target, want, folded string }{
	// What nobody disputes.
	{"/admin", "admin", ""},
	{"/admin/", "admin", ""},
	{"/admin/x", "admin", ""},
	{"/admin?x", "admin", ""},
	{"/admin?/../x", "admin", ""},
	{"/x?/../admin", "open", ""},
	{"/", "open", ""},
	{"/administrator", "open", ""},
	{"/x/admin", "open", ""},
	{"/gone", "gone", ""},
	{"/moved", "moved", ""},

	// Empty segments.
	{"//admin", "admin", ""},
	{"///admin", "admin", ""},
	{"/admin//", "admin", ""},
	{"/x/..//admin", "admin", ""},
	{"/x//../admin", "admin", ""},
	{"//x/../admin", "admin", ""},
	{"//gone", "gone", ""},
	{"//vault.test/admin", "open", ""}, // no authority: a path that begins with two slashes

	// Dot segments, in any spelling.
	{"/x/../admin", "admin", ""},
	{"/x/y/../../admin", "admin", ""},
	{"/./admin", "admin", ""},
	{"/././/admin", "admin", ""},
	{"/x/./../admin", "admin", ""},
	{"/admin/.", "admin", ""},
	{"/admin/./", "admin", ""},
	{"/admin/x/..", "admin", ""},
	{"/admin/..", "open", ""},
	{"/admin/../", "open", ""},
	{"/admin/../x", "open", ""},
	{"/admin/../admin", "admin", ""},
	{"/admin/%2e%2e/x", "open", ""},
	{"/x/%2e%2e/admin", "admin", ""},
	{"/x/%2E%2e/admin", "admin", ""},
	{"/x/.%2e/admin", "admin", ""},
	{"/x/%2e./admin", "admin", ""},
	{"/%2e/admin", "admin", ""},
	{"/x/../gone", "gone", ""},
	{"/x/%2e%2e/moved", "moved", ""},
	{"/../admin", "", ""},
	{"/%2e%2e/admin", "", ""},
	{"/x/../../admin", "", ""},
	{"/./../admin", "", ""},
	{"/admin/../../admin", "", ""},
	{"//../admin", "", ""},
	{"/x/...//admin", "open", ""}, // three dots are a name
	{"/.../admin", "open", ""},
	{"/admin.", "open", ""},
	{"/admin..", "open", ""},
	{"/admin/...", "admin", ""},
	{"/x/.. /admin", "", ""},
	{"/x/..%20/admin", "open", ""},

	// Escapes of what needs none.
	{"/%61dmin", "admin", ""},
	{"/%61%64%6d%69%6e", "admin", ""},
	{"/%61%64%6D%69%6E/%78", "admin", ""},
	{"/admi%6e/", "admin", ""},
	{"/%67one", "gone", ""},

	// Slashes that are escaped.
	{"/admin%2fx", "", ""},
	{"/admin%2Fx", "", ""},
	{"/admin%2f", "", ""},
	{"/%2fadmin", "", ""},
	{"/%2f%2fadmin", "", ""},
	{"//%2fadmin", "", ""},
	{"/%2f/admin", "", ""},
	{"/gone%2fx", "", ""},
	{"/moved%2f", "", ""},
	{"/%61dmin%2fx", "", ""},
	{"/admin/a%2fb", "admin", ""},
	{"/admin/%2f", "admin", ""},
	{"/x/a%2fb", "open", ""},
	{"/x%2fadmin", "open", ""},
	{"/%2f/../admin", "admin", ""}, // what ".." takes away is gone

	// Dot segments behind them.
	{"/..%2fadmin", "", ""},
	{"/x/..%2fadmin", "", ""},
	{"/x%2f..%2fadmin", "", ""},
	{"/x%2f../admin", "", ""},
	{"/x/%2e%2e%2fadmin", "", ""},
	{"/x/.%2e%2fadmin", "", ""},
	{"/%2e%2fadmin", "", ""},
	{"/.%2fadmin", "", ""},
	{"/%2F%2e%2e/admin", "", ""},
	{"/admin%2f..%2fx", "", ""},
	{"/admin/..%2fx", "", ""},
	{"/x/..%2f", "", ""},

	// Path parameters.
	{"/admin;", "", ""},
	{"/admin;x=1", "", ""},
	{"/admin;x=1/", "", ""},
	{"/admin;/x", "", ""},
	{"/%61dmin;/x", "", ""},
	{"/;/admin", "", ""},
	{"/;x=1/admin", "", ""},
	{"/;/;/admin", "", ""},
	{"/gone;x", "", ""},
	{"/moved;/x", "", ""},
	{"/x;a=b/admin", "open", ""},
	{"/x;/../admin", "admin", ""},
	{"/;/../admin", "admin", ""},
	{"/admin/x;a=b", "admin", ""},
	{"/admin/;/x", "admin", ""},
	{"/x/..;/admin", "", ""},
	{"/x/..;a=b/admin", "", ""},
	{"/x/.;/../admin", "", ""},
	{"/.;/admin", "", ""},
	{"/..;/admin", "", ""},
	{"/x/..;", "", ""},
	{"/x/%2e%2e;/admin", "", ""},
	{"/x/..%3b/admin", "", ""},
	{"/x/..%3B/admin", "", ""},
	{"/x/%2e%2e%3b/admin", "", ""},
	{"/.%3b/admin", "", ""},
	{"/admin%3b", "", ""},
	{"/admin%3bx", "", ""},
	{"/admin%3Bx=1/y", "", ""},
	{"/%3b/admin", "", ""},
	{"/x/..;%2fadmin", "", ""},
	{"/;%2fadmin", "", ""},
	{"/admin;%2fx", "", ""},
	{"/admin%3b%2fx", "", ""},
	{"/x/..;/..;/admin", "", ""},

	// Backslashes.
	{`/x/..\admin`, "", ""},
	{`/x\..\admin`, "", ""},
	{`/\admin`, "", ""},
	{`\admin`, "", ""},
	{`/admin\x`, "", ""},
	{"/a%5cadmin", "", ""},
	{"/%5cadmin", "", ""},
	{"/x/..%5cadmin", "", ""},
	{"/x%5C..%5Cadmin", "", ""},
	{"/admin%5c", "", ""},

	// What a server may cut or stop at.
	{"/admin%00", "", ""},
	{"/admin%00/x", "", ""},
	{"/%00/../admin", "", ""},
	{"/x/..%00/admin", "", ""},
	{"/x/.%00./admin", "", ""},
	{"/admin%0a", "", ""},
	{"/admin%0d%0aX:%20y", "", ""},
	{"/admin%09", "", ""},
	{"/admin%1f", "", ""},
	{"/admin%7f", "", ""},
	{"/x/..%09/admin", "", ""},
	{"/%0aadmin", "", ""},
	{"/admin\x00", "", ""},
	{"/admin\x01", "", ""},
	{"/admin\tx", "", ""},
	{"/admin\x7f", "", ""},
	{"/admin#x", "", ""},
	{"/x#/../admin", "", ""},
	{"/x?y#/admin", "", ""},
	{"/admin%23x", "open", ""},
	{"/admin%3fx", "open", ""},
	{"/admin%3f/../x", "open", ""},
	{"/admin%20", "open", ""},
	{"/admin+", "open", ""},
	{"/admin%2b", "open", ""},
	{"/admin:80", "open", ""},
	{"/admin,x", "open", ""},
	{"/admin&x", "open", ""},
	{"/admin~", "open", ""},

	// Escapes of escapes are decoded once, and no more.
	{"/%2561dmin", "open", ""},
	{"/%252fadmin", "open", ""},
	{"/x/..%252fadmin", "open", ""},
	{"/x/%252e%252e/admin", "open", ""},
	{"/x/%252e%252e%252fadmin", "open", ""},
	{"/admin%252fx", "open", ""},
	{"/admin%253bx", "open", ""},
	{"/admin%2500", "open", ""},
	{"/x/..%255cadmin", "open", ""},
	{"/%25%32%66admin", "open", ""},

	// What is no escape.
	{"/admin%", "", ""},
	{"/admin%2", "", ""},
	{"/admin%zz", "", ""},
	{"/%u0061dmin", "", ""},
	{"/x/%u002e%u002e/admin", "", ""},
	{"/x/..%u2215admin", "", ""},
	{"/x/%%32%65%%32%65/admin", "", ""},
	{"/%6/1dmin", "", ""},

	// Bytes that are no ASCII, and no UTF-8, are themselves.
	{"/%c0%ae%c0%ae/admin", "open", ""},
	{"/x/%c0%ae%c0%ae/admin", "open", ""},
	{"/x/..%c0%afadmin", "open", ""},
	{"/x/%e0%80%ae%e0%80%ae/admin", "open", ""},
	{"/x/\xc0\xae\xc0\xae/admin", "", ""},
	{"/x/..%ef%bc%8fadmin", "open", ""},         // fullwidth solidus
	{"/x/%ef%bc%8e%ef%bc%8e/admin", "open", ""}, // fullwidth full stops
	{"/x/..%e2%81%84admin", "open", ""},         // fraction slash
	{"/x/..%e2%88%95admin", "open", ""},         // division slash
	{"/adm%c4%b1n", "open", ""},                 // dotless i
	{"/%ef%bd%81dmin", "open", ""},              // fullwidth a
	{"/admin%ff", "open", ""},
	{"/\xe1dmin", "", ""},
	{"/admin%c2%a0", "open", ""},
	{"/adm%ef%bb%bfin", "open", ""},
	{"/%ef%bb%bf/admin", "open", ""},

	// Case counts unless the route says otherwise.
	{"/ADMIN", "open", "admin"},
	{"/Admin/x", "open", "admin"},
	{"/%41DMIN", "open", "admin"},
	{"/x/../aDmIn", "open", "admin"},
	{"/GONE", "open", "gone"},
	{"/Moved/x", "open", "moved"},
	{"/ADMIN%2fx", "open", ""},
	{"/ADMIN;x", "open", ""},
	{"/ADMIN%3Bx", "open", ""},
	{"/x/..;/ADMIN", "", ""},

	// Other forms of a target.
	{"http://gateway.test/admin", "admin", ""},
	{"http://gateway.test//admin", "admin", ""},
	{"http://gateway.test/x/../admin", "admin", ""},
	{"http://gateway.test/admin%2fx", "", ""},
	{"http://gateway.test", "open", ""},
	{"http://gateway.test?/admin", "open", ""},
	{"http://vault.test/admin", "vault", ""},
	{"http://vault.test:80/admin", "vault", ""},
	{"HTTP://VAULT.test/admin", "vault", ""},
	{"http://vault.test//admin/../x", "vault", ""},
	{"http://vault.test/admin%2fx", "vault", ""},
	{"http://vault.test/..%2fadmin", "", ""},
	{"https://vault.test/admin", "vault", ""},
	{"admin", "", ""},
	{"x/../admin", "", ""},
	{"?/admin", "", ""},
	{";/admin", "", ""},
	{"", "", ""},
}

// Whatever a path looks like, what the open backend receives is never the path of a guarded route, however leniently it
// reads what it received.
func TestPathAttacks(t *testing.T) {
	for _, fold := range []bool{false, true} {
		t.Run(fmt.Sprintf("fold=%t", fold), func(t *testing.T) {
			a := startAttacked(t, fold)
			for _, attack := range pathAttacks {
				want := attack.want
				if fold && (attack.folded != "" || strings.HasPrefix(attack.target, "/ADMIN")) {
					want = attack.folded
				}
				host := "gateway.test"
				if absolute, err := url.Parse(attack.target); err == nil && absolute.IsAbs() {
					if seen := a.send(attack.target, host); absolute.Host != host && seen.Route != "" {
						t.Errorf("%q with another Host: %+v, want it refused", attack.target, seen)
					}
					host = absolute.Host
				}
				seen := a.send(attack.target, host)
				if seen.Route != want {
					t.Errorf("%q: %+v, want route %q", attack.target, seen, want)
				}
				if err := a.judge(attack.target, host, seen); err != nil {
					t.Errorf("%q: %v", attack.target, err)
				}
			}
		})
	}
}

// The host of a route guards as well.
func TestPathAttacksOnAHost(t *testing.T) {
	a := startAttacked(t, false)
	for _, host := range []string{"vault.test", "VAULT.TEST", "vault.test:80", "Vault.test:8443", "vault.test.", "vault.test.:80"} {
		for _, attack := range pathAttacks {
			if strings.Contains(attack.target, "://") || attack.want == "" {
				continue
			}
			seen := a.send(attack.target, host)
			if seen.Route != "vault" {
				t.Errorf("%q of %s: %+v, want the route of the host", attack.target, host, seen)
			}
			if err := a.judge(attack.target, host, seen); err != nil {
				t.Errorf("%q of %s: %v", attack.target, host, err)
			}
		}
	}
}

// policedRoutes are a guarded and an open route for each host; the open one has the policy.
const policedRoutes = `
  %[1]s-admin: {hosts: [%[1]s.test], path: "/admin/{**rest}", backends: ["%[3]s"]}
  %[1]s-open: {hosts: [%[1]s.test], path: "/{**rest}", pathPolicy: %[2]s, backends: ["%[4]s"]}
`

// What a route allows is taken by that route, and handed on as it was sent. The guarded route allows nothing.
func TestPathPolicies(t *testing.T) {
	admin, open := tellingBackend(t, "admin"), tellingBackend(t, "open")
	config := "routes:"
	for host, policy := range map[string]string{
		"slash": "{allow: [encodedSlash]}", "parameter": "{allow: [pathParameter]}", "backslash": "{allow: [backslash]}",
		"control": "{allow: [control]}", "climb": "{allow: [climb]}",
		"strict": "{refuse: [encodedSlash, encodedPercent, encodedQuestionMark, encodedHash, encodedSemicolon, semicolon, emptySegment, dotSegment]}",
	} {
		config += fmt.Sprintf(policedRoutes, host, policy, admin, open)
	}
	a := serveAttacked(t, config)
	for _, test := range []struct{ host, target, want, received string }{
		{"slash", "/admin%2fx", "open", "/admin%2fx"},
		{"slash", "/x/..%2fadmin", "open", "/x/..%2fadmin"},
		{"slash", "/admin;x", "", ""},
		{"slash", "/admin;%2fx", "", ""},
		{"slash", "/x/../admin", "admin", "/admin"},
		{"slash", "/admin/..%2fx", "", ""},
		{"parameter", "/admin;x", "open", "/admin;x"},
		{"parameter", "/x/..;/admin", "open", "/x/..;/admin"},
		{"parameter", "/x/..%3b/admin", "open", "/x/..%3b/admin"},
		{"parameter", "/admin%2fx", "", ""},
		{"parameter", "/admin;%2fx", "open", "/admin;%2fx"}, // %2F alone makes no admin of it
		{"parameter", "/admin/..;/x", "", ""},
		{"backslash", "/a%5cadmin", "open", "/a%5cadmin"},
		{"backslash", `/a\admin`, "open", `/a\admin`},
		{"backslash", `/admin/\x`, "", ""},
		{"control", "/admin%00", "open", "/admin%00"},
		{"control", "/a%0d%0aX:%20y", "open", "/a%0d%0aX:%20y"},
		{"control", "/a\x01", "", ""},
		{"control", "/admin/%00", "", ""},
		{"climb", "/../x", "open", "/x"},
		{"climb", "/x/../../y", "open", "/y"},
		{"climb", "/../admin", "", ""},
		{"climb", "/..%2fadmin", "", ""},
		{"strict", "/a/b/", "open", "/a/b/"},
		{"strict", "/a%20b/%61", "open", "/a%20b/%61"},
		{"strict", "/a%2fb", "", ""},
		{"strict", "/a%25b", "", ""},
		{"strict", "/a%3fb", "", ""},
		{"strict", "/a%23b", "", ""},
		{"strict", "/a%3bb", "", ""},
		{"strict", "/a;b", "", ""},
		{"strict", "//a", "", ""},
		{"strict", "/a//", "", ""},
		{"strict", "/./a", "", ""},
		{"strict", "/a/%2e%2e/b", "", ""},
	} {
		host := test.host + ".test"
		seen := a.send(test.target, host)
		if want := (outcome{test.want, test.received}); seen != want {
			t.Errorf("%q of %s: %+v, want %+v", test.target, host, seen, want)
		}
		if seen.Route != "" {
			seen.Route = test.host + "-" + seen.Route
		}
		if err := a.agreesWithExplain(test.target, host, seen); err != nil {
			t.Errorf("%q of %s: %v", test.target, host, err)
		}
	}
}

// spellings are the pieces of which random paths are made.
var spellings = []string{
	"/", "/", "/", "admin", "admin", "x", "gone", ".", "..", "...", "%2e", "%2E", "%2f", "%2F", "%5c", `\`, ";", ";a=b", "%3b", "%3B",
	"%61", "%41", "A", "dmin", "%25", "%252f", "%252e", "%00", "%0a", "%20", "%c0%af", "%c0%ae", "%ef%bc%8f", "%", "#", "+", ":", "~", "\xff",
	"/../", "/./", "//", "/..;/", "..%2f", "/x/../", "?", "&", "ADMIN",
}

func TestRandomPathAttacks(t *testing.T) {
	atOnce := 20 // and a check has a hundred rounds
	if long {
		atOnce = 200
	}
	for _, fold := range []bool{false, true} {
		t.Run(fmt.Sprintf("fold=%t", fold), func(t *testing.T) {
			a := startAttacked(t, fold)
			rapid.Check(t, func(t *rapid.T) {
				for _, pieces := range rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(spellings), 1, 8), atOnce, atOnce).Draw(t, "paths") {
					target := "/" + strings.Join(pieces, "")
					if rapid.Bool().Draw(t, "aimed") {
						target += "/admin/x"
					}
					if err := a.judge(target, "gateway.test", a.send(target, "gateway.test")); err != nil {
						t.Fatalf("%q: %v", target, err)
					}
				}
			})
		})
	}
}

// judge says what is wrong with the outcome of a request.
func (a *attacked) judge(target, host string, seen outcome) error {
	if err := a.agreesWithExplain(target, host, seen); err != nil {
		return err
	}
	if seen.Target == "" {
		return nil
	}
	path, _, _ := strings.Cut(seen.Target, "?")
	if got, want := segments(path), matched(target); !slices.Equal(got, want) {
		return fmt.Errorf("the backend got the segments %q, matched were %q", got, want)
	}
	for name, read := range readings {
		if got := read(path); seen.Route != "vault" && seen.Route != a.owner(got) {
			return fmt.Errorf("route %s sent %q, which a server that %s reads as %q", seen.Route, path, name, got)
		}
	}
	return nil
}

// agreesWithExplain asks the agent what it would do, and compares it with what it did.
func (a *attacked) agreesWithExplain(target, host string, seen outcome) error {
	if strings.ContainsAny(target, "# ") {
		return nil // no client sends these of a URL, and so they are not asked about
	}
	asked := target
	if strings.HasPrefix(target, "/") {
		asked = "http://" + host + target
	}
	code, body, err := a.p.api("GET", "/v1/routes/explain?url="+url.QueryEscape(asked), "")
	var e struct {
		Route   string
		Forward struct{ Target string }
	}
	if err == nil && code == 200 {
		err = json.Unmarshal([]byte(body), &e)
	}
	switch {
	case err != nil:
		return err
	case code == 400 && seen.Route == "": // no URL, and no request either
		return nil
	case code != 200:
		return fmt.Errorf("explain: %d %s", code, body)
	case e.Route != seen.Route || e.Forward.Target != string([]rune(seen.Target)): // JSON has no bytes that are no UTF-8
		return fmt.Errorf("explain says %+v, and it was %+v", e, seen)
	}
	return nil
}

// owner is the route whose template takes a path that was read leniently.
func (a *attacked) owner(path []string) string {
	if len(path) == 0 {
		return "open"
	}
	first := path[0]
	if a.fold {
		first = strings.ToLower(first)
	}
	if slices.Contains([]string{"admin", "gone", "moved"}, first) {
		return first
	}
	return "open"
}
