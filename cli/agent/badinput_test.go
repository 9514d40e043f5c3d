package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// badInput is a command that must fail, and what its error has to say.
type badInput struct {
	args []string
	exit int
	says []string
}

func cmd(exit int, says string, args ...string) badInput {
	return badInput{args, exit, strings.Split(says, "|")}
}

// setRoute sets gateway/routes/r to a value that is wrong.
func setRoute(value, says string) badInput {
	return cmd(3, "gateway/routes/r|Nothing was written|"+says, "config", "set", "gateway/routes/r", value)
}

func set(key, value, says string) badInput {
	return cmd(3, "Nothing was written|"+says, "config", "set", key, value)
}

const good = "path=/r,backends=http://h:80,"

// badInputs assume gateway/clusters/c, and gateway/routes/used which uses it.
var badInputs = []badInput{
	setRoute("path=/r,backend=http://h:80", `unknown field "backend"|did you mean "backends"?`),
	setRoute("path=/r", `route "r": no backends`),
	setRoute("path=r,backends=http://h:80", `path "r": must begin with /`),
	setRoute("path=/r/{**a}/x,backends=http://h:80", `path "/r/{**a}/x"|{**a} must be the last`),
	setRoute("path=/{a}/{a},backends=http://h:80", `"a" is there twice`),
	setRoute("path=/r,backends=h:80", `backends[0] "h:80"`),
	setRoute("path=/r,backends=ftp://h:80", `scheme "ftp"`),
	setRoute("path=/r,backends=http://u:p@h:80", "user name or password"),
	setRoute("path=/r,backends=http://h:99999", `port "99999"`),
	setRoute("path=/r,backends=http://h:80/base", "/base"),
	setRoute("path=/r,backends=http://h:80,backends=http://h:80", "backends[1]"),
	setRoute(good+"pathRemovePrefix=/x", `pathRemovePrefix "/x": not a prefix of path "/r"`),
	setRoute(good+"timeout=5", `timeout "5": needs a unit`),
	setRoute(good+"timeout=-5s", `timeout "-5s"`),
	setRoute(good+"order=high", `order "high"`),
	setRoute(good+"enabled=perhaps", `enabled "perhaps"`),
	setRoute("path=/r,cluster=nowhere", `cluster "nowhere": no such cluster; there is c`),
	setRoute(good+"cluster=c", `cluster "c": cannot stand beside backends`),
	setRoute(good+"requireAuth=true,allowAnonymous=true", "allowAnonymous|requireAuth"),
	setRoute(good+"requireAuth=true", "requireAuth"),
	setRoute(good+"methods=GE T", `methods[0] "GE T"`),
	setRoute(good+"hosts=a b", `hosts[0] "a b"`),
	setRoute(good+"compression.enabled=true", "compression"),
	setRoute(good+"pathPrefix=x", `pathPrefix "x"`),
	setRoute("pathRegex=/r(,backends=http://h:80", `pathRegex "/r("`),
	setRoute(good+"pathRegex=/r", "pathRegex|path"),
	setRoute(good+"pathPolicy.allow=anything", `pathPolicy.allow[0] "anything"|encodedSlash`),
	setRoute(good+"clients=10.0.0.0/99", `clients[0] "10.0.0.0/99"`),
	setRoute(good+"headers.name=X-A", "headers: expected a list"),
	setRoute(`{"path":"/r","backends":["http://h:80"],"headers":[{"name":"Host","value":"a"}]}`, "headers[0].name|hosts"),
	setRoute(`{"path":"/r","backends":["http://h:80"],"query":[{"name":"a","value":"b","present":true}]}`, "query[0]|present"),
	setRoute(good+"rewrite.regex=(a),rewrite.to=$2", `rewrite.to "$2"`),
	setRoute("path=/r,redirect.to=/{name}", `redirect.to "/{name}": {name} is no parameter`),
	setRoute("path=/r,redirect.to=//h/x", `redirect.to "//h/x"`),
	setRoute("path=/r,redirect.to=/s,redirect.status=200", `redirect.status "200"`),
	setRoute("path=/r,respond.status=99", `respond.status "99"`),
	setRoute(good+"redirect.to=/s", "backends|redirect"),
	setRoute(good+"path=/s", "path|2 times"),
	setRoute(`{"path":"/r","Path":"/s","backends":["http://h:80"]}`, `"path" and "Path"`),
	setRoute(`{"path":"/r","timeout":"1s","timeoutMs":1,"backends":["http://h:80"]}`, `"timeout" and "timeoutMs"`),
	setRoute(`{"path":"/r","order":1e400,"backends":["http://h:80"]}`, `order "1e400"`),
	setRoute(`{"path":"/r",}`, "not valid JSON"),
	setRoute(`{"path":"/r"} {}`, "JSON"),
	setRoute("path: /r\nbackends: [\n", "YAML"),
	setRoute("", "is empty"),
	setRoute(`{"path":"/r","routeId":"other","backends":["http://h:80"]}`, `routeId "other"`),
	set("gateway/route/x", "path=/r", `"route"|did you mean "routes"?`),
	set("gateway/routes", "path=/r", "gateway/routes|gateway/routes/{routeId}"),
	set("gateway/routes/-x", "path=/r", "routeId|-x"),
	set("gateway/config/timeout", "timeout=5s", `"timeout"|did you mean "timeouts"?`),
	set("gateway/config/timeouts", "cap=never", `gateway/config/timeouts|cap "never"`),
	set("gateway/config/headers", "trustedProxies=everyone", `gateway/config/headers|everyone`),
	set("gateway/config/logging", "level=loud", `level "loud"|debug, info, warn, error`),
	set("gateway/instances/r/i", "path=/r,address=http://h:1", "gateway/instances/r/i|announce it"),
	set("gateway/certs/x", "y", "gateway/certs|later version"),
	set("gateway/maintenance", "maybe", `gateway/maintenance|"maybe"`),
	set("gateway/clusters/c", "destinations.a:http://h:1,loadBalancing:best", `loadBalancing "best"|leastRequest`),
	set("gateway/clusters/c", "destinations.a:http://h:1,loadBalancing:hash,hashOn:colour", `hashOn "colour"|header:NAME`),
	set("gateway/clusters/c", "destinations.a:nonsense", `gateway/clusters/c|destinations.a "nonsense"`),
	set("_meta/x", "y", "_meta is read-only"),
	set("app//x", "y", `key "app//x"|empty segment`),
	set("app/../x", "y", `key "app/../x"|".."`),
	set("app/x y", "y", `key "app/x y"`),
	set("", "y", `key ""`),
	set("app/x", "@/no/such/file", "/no/such/file"),
	cmd(3, "gateway/routes/used|no such cluster|Nothing was written", "config", "delete", "gateway/clusters/c"),
	cmd(4, "gateway/routes/none|Nothing was written", "config", "delete", "gateway/routes/none"),
	cmd(10, "gateway/routes|--yes|Nothing was written", "config", "delete", "-r", "gateway/routes"),
	cmd(5, "gateway/routes/used|revision|Nothing was written", "config", "set", "gateway/routes/used", "path=/u,cluster=c", "--cas", "99"),
	cmd(5, "gateway/routes/used|Nothing was written", "config", "set", "--create", "gateway/routes/used", "path=/u,cluster=c"),
	cmd(5, "gateway/routes/used|Nothing was written", "config", "delete", "gateway/routes/used", "--cas=99"),
	cmd(2, `--cas|"x"|Nothing was written`, "config", "set", "gateway/routes/used", "path=/u,cluster=c", "--cas", "x"),
	cmd(2, `--wait "sometimes"|Nothing was written`, "config", "set", "app/x", "y", "--wait", "sometimes"),
	cmd(2, `--dryrun|did you mean "--dry-run"?|Nothing was written`, "config", "set", "app/x", "y", "--dryrun"),
	cmd(2, "surplus|z", "config", "set", "app/x", "y", "z"),
	cmd(2, "KEY is missing", "config", "get"),
	cmd(4, "gateway/routes/none", "config", "get", "gateway/routes/none"),
	cmd(3, "1.99|not reached", "config", "get", "gateway/routes/used", "--at", "99"),
	cmd(2, `"sett"|did you mean "set"?`, "config", "sett", "x", "y"),
	cmd(2, `"confg"|did you mean "config"?`, "confg", "list"),
	cmd(2, `"xml"|table, json`, "routes", "list", "-o", "xml"),
	cmd(3, `method "get"|in upper case|GET`, "routes", "explain", "get", "/"),
	cmd(3, `method "G T"`, "routes", "explain", "G T", "/"),
	cmd(3, `method "/"`, "routes", "explain", "/", "GET"),
	cmd(3, `url "booking/42"|/`, "routes", "explain", "booking/42"),
	cmd(3, `url "ftp://h/"`, "routes", "explain", "ftp://h/"),
	cmd(3, `url "http://a b/"`, "routes", "explain", "http://a b/"),
	cmd(3, `url "/%zz"|%zz`, "routes", "explain", "/%zz"),
	cmd(3, `query parameter "url": is missing`, "routes", "explain", ""),
	cmd(3, `header "X-A"|Name: value`, "routes", "explain", "/", "-H", "X-A"),
	cmd(3, `header "X A: 1"|name "X A"`, "routes", "explain", "/", "-H", "X-B: 1", "-H", "X A: 1"),
	cmd(3, `header "Host: h"|url`, "routes", "explain", "/", "-H", "Host: h"),
	cmd(3, `client "10.0.0"|IP address`, "routes", "explain", "/", "--client", "10.0.0"),
	cmd(3, `client ""|IP address`, "routes", "explain", "/", "--client="),
	cmd(2, "URL is missing", "routes", "explain", "-H", "X-A: 1"),
	cmd(2, "surplus|/y", "routes", "explain", "GET", "/x", "/y"),
	cmd(2, `"lnt"|did you mean "lint"?`, "routes", "lnt"),
	cmd(2, `"doctor" is not in this version`, "doctor"),
	cmd(2, "NODE is missing", "force-leave"),
	cmd(10, "take x out of the cluster|Nothing was changed|--yes", "force-leave", "x"),
	cmd(3, `addresses[0]|"x"|host:port|Nothing was changed`, "join", "x"),
	cmd(2, "NODE is missing", "raft", "promote"),
	cmd(2, `"transfer"|did you mean "transfer-leadership"?`, "raft", "transfer"),
	cmd(3, `role "admin"|Nothing was changed`, "token", "join", "--role", "admin"),
	cmd(3, `ttl "x"|Nothing was changed`, "token", "join", "--ttl", "x"),
	cmd(2, `--uses "none"`, "token", "join", "--uses", "none"),
	cmd(2, `--wait "half"|Nothing was written`, "config", "set", "app/x", "1", "--wait", "half"),
	cmd(4, `node "nobody"|Nothing was written`, "config", "set", "app/x", "1", "--node", "nobody"),
	cmd(4, `node "nobody"`, "status", "--node", "nobody"),
	cmd(2, `--consistency "strong"`, "config", "get", "app/x", "--consistency", "strong"),
	cmd(3, "/no/such.pem", "tls", "inspect", "/no/such.pem"),
	cmd(3, "/no/such.yaml", "config", "validate", "-f", "/no/such.yaml"),
}

// Every wrong word is answered with the right exit code and an error that names
// the thing and the value. The revision stays what it was.
func TestBadInput(t *testing.T) {
	p := startAgent(t, t.TempDir())
	p.must("PUT", "/v1/kv/gateway/clusters/c", `{"destinations":{"a":"http://127.0.0.1:1"}}`)
	p.must("PUT", "/v1/kv/gateway/routes/used", `{"path":"/used","cluster":"c"}`)
	before := p.awaitStatus().Rev
	for _, tt := range badInputs {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			t.Parallel() // none of them changes anything
			exit, stdout, stderr := p.cli(tt.args...)
			judge(t, tt, exit, stdout, stderr)
			if after := p.awaitStatus().Rev; after != before {
				t.Errorf("revision %s became %s", before, after)
			}
		})
	}
}

func judge(t *testing.T, want badInput, exit int, stdout, stderr string) {
	t.Helper()
	if exit != want.exit {
		t.Errorf("exit code %d; want %d\n%s", exit, want.exit, stderr)
	}
	for _, phrase := range want.says {
		if !strings.Contains(stderr, phrase) {
			t.Errorf("the error does not say %q:\n%s", phrase, stderr)
		}
	}
	if stdout != "" {
		t.Errorf("an error came with output: %s", stdout)
	}
	for _, trace := range []string{"goroutine ", "panic", ".go:"} {
		if strings.Contains(stderr, trace) {
			t.Errorf("the error shows a stack trace:\n%s", stderr)
		}
	}
}

// A start that can't succeed ends with one clear message, and leaves what it
// found as it was.
func TestBadStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().String()
	running := startAgent(t, t.TempDir())
	locked := filepath.Dir(running.socket)

	for _, tt := range []struct {
		name  string
		files map[string]string
		badInput
	}{
		{"no file", nil, cmd(3, "none.yaml|no such file", "--config", "none.yaml")},
		{"no folder", nil, cmd(3, "none.d|no such file", "--config-dir", "none.d")},
		{"broken YAML", map[string]string{"g.yaml": "routes: ["}, cmd(3, "g.yaml:1:|YAML", "--config", "g.yaml")},
		{"broken JSON", map[string]string{"g.json": `{"routes": {`}, cmd(3, "g.json:1:|JSON", "--config", "g.json")},
		{"route without backend", map[string]string{"g.yaml": "routes:\n  booking:\n    path: /b\n"}, cmd(3, `g.yaml:2:3|route "booking": no backends`, "--config", "g.yaml")},
		{
			"prefix",
			map[string]string{"g.yaml": "routes:\n  booking:\n    path: /b\n    pathRemovePrefix: /x\n    backends: ['http://h:1']\n"},
			cmd(3, `g.yaml:4:23|gateway/routes/booking|pathRemovePrefix "/x"`, "--config", "g.yaml"),
		},
		{"unknown cluster", map[string]string{"g.yaml": "routes: {booking: {path: /b, cluster: gone}}"}, cmd(3, `g.yaml:1:|gateway/routes/booking|cluster "gone"`, "--config", "g.yaml")},
		{"unknown field", map[string]string{"g.yaml": "rutes: {}\nlisteners: {http: x}\n"}, cmd(3, `g.yaml:1:1|"rutes"|g.yaml:2:19|http "x"`, "--config", "g.yaml")},
		{"id twice", map[string]string{"a.yaml": "routes: {a: {path: /a, backends: ['http://h:1']}}", "b.yaml": "routes: {A: {path: /a, backends: ['http://h:1']}}"}, cmd(3, "b.yaml:1:10|gateway/routes/a|a.yaml:1:10", "--config", "a.yaml", "--config", "b.yaml")},
		{"not served yet", map[string]string{"g.yaml": "config: {auth: {providers: {main: {authority: 'https://a.example.com'}}}}"}, cmd(3, "g.yaml:1:|gateway/config/auth", "--config", "g.yaml")},
		{"cookies", map[string]string{"g.json": `{"Authentication":{"Cookie":{}}}`}, cmd(3, "g.json:1:|Cookie|forward-auth", "--config", "g.json")},
		{"https in the clear", map[string]string{"g.json": `{"Gateway":{"HttpUrl":"https://*:8443"}}`}, cmd(3, `g.json:1:|http "https://*:8443"|without TLS`, "--config", "g.json")},
		{"bad address", nil, cmd(2, `--http "nonsense"`, "--http", "nonsense")},
		{"admin off loopback", nil, cmd(2, `--admin "0.0.0.0:0"|loopback`, "--admin", "0.0.0.0:0")},
		{"dev with data", nil, cmd(2, `--data-dir "d"|--dev`, "--dev")},
		{"no place to join", nil, cmd(2, `--join "x"|neither a join token nor host:port`, "--join", "x")},
		{"not in this version", nil, cmd(2, "--https is not in this version", "--https", ":8443")},
		{"flag", nil, cmd(2, `--nodes|did you mean "--node"?`, "--nodes", "x")},
		{"surplus", nil, cmd(2, `"surplus"`, "surplus")},
		{"port in use", nil, cmd(1, "http listener|"+port+"|address already in use|--http", "--http", port)},
		{"both ports in use", nil, cmd(1, "http listener|admin listener|"+port, "--http", port, "--admin", port)},
		{"data directory in use", nil, cmd(1, locked+fmt.Sprintf("|%d", running.cmd.Process.Pid), "--data-dir", locked)},
		{"data directory is a file", map[string]string{"d": ""}, cmd(1, `data directory "d": not a directory`)},
		{"garbage", map[string]string{"d/kv.db": "garbage"}, cmd(1, "d/kv.db is corrupt|left as it is")},
		{"emptied", map[string]string{"d/kv.db": ""}, cmd(1, "d/kv.db is corrupt|left as it is")},
		{"bad node id", map[string]string{"d/node.id": "nonsense"}, cmd(1, `d/node.id|"nonsense"`)},
		{"no folder for the socket", nil, cmd(1, "/no/such/agent.sock", "--socket", "/no/such/agent.sock")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, content := range tt.files {
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{"run", "--data-dir", "d", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, tt.args...)
			exit, stdout, stderr := runCLI(t, "", args...)
			judge(t, tt.badInput, exit, stdout, stderr)
			for name, content := range tt.files {
				if now, err := os.ReadFile(name); err != nil || string(now) != content {
					t.Errorf("%s was changed to %q, %v", name, now, err)
				}
			}
		})
	}
}

// A data directory that can't be written, or has no room, stops the start with
// its name and the cause.
func TestBadDataDirectory(t *testing.T) {
	for _, tt := range []struct {
		name, options string
		flags         uintptr
		badInput
	}{
		{"read-only", "size=1m", syscall.MS_RDONLY, cmd(1, "data directory|read-only file system|--data-dir")},
		{"full", "size=16k", 0, cmd(1, "data directory|disk is full|no space left")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", tt.flags, tt.options); err != nil {
				t.Skipf("a small tmpfs can't be mounted: %v", err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			})
			exit, stdout, stderr := runCLI(t, "", "run", "--data-dir", dir, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")
			tt.says = append(tt.says, dir)
			judge(t, tt.badInput, exit, stdout, stderr)
		})
	}
}
