package cli

import (
	"os"
	"strings"
	"testing"
)

const bookingRoute = `'path=/booking/{**catch-all},pathRemovePrefix=/booking,backends=http://127.0.0.1:5010'`

func TestSetEchoesAndGivesAReceipt(t *testing.T) {
	n := startNode(t)
	line := "config set gateway/config/logging level:debug,format=json"
	n.call(line).check(t, line, 0, "",
		"gateway/config/logging = {\"format\":\"json\",\"level\":\"debug\"}\nrevision 1, live on this node in N ms\n")

	line = "config set app/x hello --wait none -q"
	n.call(line).check(t, line, 0, "", "")

	line = "config set app/x hello --wait none"
	n.call(line).check(t, line, 0, "", "app/x = \"hello\"\nrevision 3, committed\n")

	line = "config set app/x {} --wait 50% -o json"
	n.call(line).check(t, line, 0, `{
  "key": "app/x",
  "rev": "1.4",
  "value": {},
  "applied": {
    "nodes": 1,
    "of": 1,
    "ms": N
  },
  "dryRun": false,
  "notices": []
}
`, "app/x = {}\nrevision 4, live on this node in N ms\n")

	line = "config set gateway/routes/Booking " + bookingRoute + " -o name"
	if r := n.call(line); r.exit != 0 || r.stdout != "gateway/routes/booking\n" {
		t.Errorf("%s: %+v", line, r)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	n := startNode(t)
	n.must("config set app/x 1")
	for _, line := range []string{
		"config set app/x 2 --dry-run", "--dry-run config set app/x 2", "config set app/x 2 --dry-run --cas 1",
		"config delete app/x --dry-run", "config delete -r app --dry-run",
	} {
		r := n.must(line)
		if !strings.Contains(r.stderr, "dry run") || !strings.Contains(r.stderr, "othing was written") {
			t.Errorf("%s: %s", line, r.stderr)
		}
	}
	if r := n.must("config get app/x"); r.stdout != "1\n" {
		t.Errorf("after dry runs the value is %q", r.stdout)
	}
	if r := n.call("config set app/x 2 --dry-run --cas 7"); r.exit != exitConflict {
		t.Errorf("a dry run must check --cas: %+v", r)
	}
}

func TestValuesComeFromArgumentsFilesAndStdin(t *testing.T) {
	t.Chdir(t.TempDir())
	n := startNode(t)
	if err := os.WriteFile("booking.yaml", []byte("path: /booking/{**rest}\nbackends:\n- http://127.0.0.1:5010\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ stdin, line, value string }{
		{"", "config set gateway/config/logging level=debug", `{"level":"debug"}`},
		{"level=warn", "config set gateway/config/logging -", `{"level":"warn"}`},
		{"level: info\nformat: text\n", "config set gateway/config/logging -", `{"format":"text","level":"info"}`},
		{`{"Level":"error"}`, "config set gateway/config/logging -", `{"level":"error"}`},
		{"", "config set gateway/config/logging 'level: info\nformat: json'", `{"format":"json","level":"info"}`},
		{"", `config set gateway/config/logging '{"level":"warn"}'`, `{"level":"warn"}`},
		{"", "config set gateway/routes/booking @booking.yaml", `{"backends":["http://127.0.0.1:5010"],"path":"/booking/{**rest}"}`},
		{"raw: [ \n", "config set app/raw -", `"raw: [ \n"`},
		{"", "config set app/raw a=b,c", `"a=b,c"`},
		{"", "config set app/raw ''", `""`},
	} {
		r := n.callWith(test.stdin, test.line)
		if _, got, _ := strings.Cut(strings.SplitN(r.stderr, "\n", 2)[0], " = "); r.exit != 0 || got != test.value {
			t.Errorf("%s: exit %d, stored %s, want %s\n%s", test.line, r.exit, got, test.value, r.stderr)
		}
	}
}

func TestRefusedWrites(t *testing.T) {
	n := startNode(t)
	n.must("config set app/x 1")
	n.must("config set app/x 2")
	for _, test := range []struct {
		line   string
		exit   int
		stderr string
	}{
		{
			"config set gateway/routes/booking path=/x,backends=http://10.0.0.5:80,ordr=1", exitInvalid,
			"error: gateway/routes/booking: unknown field \"ordr\" (did you mean \"order\"?). Nothing was written.\n",
		},
		{"config set app/x 3 --cas 1", exitConflict, "error: key \"app/x\": is at revision 1.2, so the condition does not hold. Nothing was written.\ntry: agent config get app/x --detail\n"},
		{"config set app/x 3 --create", exitConflict, "error: key \"app/x\": is at revision 1.2, so the condition does not hold. Nothing was written.\ntry: agent config get app/x --detail\n"},
		{"config set app/y 3 --cas 1", exitConflict, "error: key \"app/y\": is not there, so the condition does not hold. Nothing was written.\ntry: agent config get app/y --detail\n"},
		{"config set app/x 3 --cas x", exitUsage, "error: --cas: revision \"x\": want a number as 1842, or epoch.number as 1.1842. Nothing was written.\ntry: agent config set --help\n"},
		{"config set app/x 3 --cas 1 --create", exitUsage, "error: config set: --create says what --cas 0 says; give one of them. Nothing was written.\ntry: agent config set --help\n"},
		{"config set app/x 3 --wait 0%", exitUsage, "error: --wait \"0%\": not none, local, all or a share from 1% to 100%. Nothing was written.\ntry: agent config set --help\n"},
		{"config set app/../x 3", exitInvalid, "error: key \"app/../x\": has the segment \"..\", which a path would resolve away. Nothing was written.\n"},
		{"config set app/x @missing", exitInvalid, "error: missing: no such file or directory. Nothing was written.\n"},
		{"config set _meta/x 1", exitInvalid, ""},
		{"config set gateway/route/x on", exitInvalid, ""},
		{"config delete app/z", exitNotFound, "error: key \"app/z\": not found at revision 1.2. Nothing was written.\ntry: agent config get app/z --detail\n"},
		{"config delete app/x --cas 1", exitConflict, "error: key \"app/x\": is at revision 1.2, so the condition does not hold. Nothing was written.\ntry: agent config get app/x --detail\n"},
		{"config delete -r app --cas 1", exitUsage, "error: config delete: --cas compares one key: it can't go with -r. Nothing was written.\ntry: agent config delete --help\n"},
		{"config delete -r nothing --yes", exitNotFound, "error: nothing: no such key, and none below it. Nothing was written.\ntry: agent config list\n"},
		{"config delete -r app", exitRefused, "error: delete app: 1 key? Refused without --yes, since nobody can be asked here. Nothing was written.\n"},
	} {
		r := n.call(test.line)
		if r.exit != test.exit || test.stderr != "" && r.stderr != test.stderr || !strings.Contains(r.stderr, "Nothing was written.") {
			t.Errorf("%s\nexit %d, want %d\n got %swant %s", test.line, r.exit, test.exit, r.stderr, test.stderr)
		}
	}
	if r := n.must("config list -o json"); strings.Count(r.stdout, `"key"`) != 1 || !strings.Contains(r.stdout, `"modRev": "1.2"`) {
		t.Errorf("refused writes left\n%s", r.stdout)
	}
}

func TestNoticesOfTheAgentAreTold(t *testing.T) {
	n := startNode(t)
	r := n.must("config set gateway/config/timeouts timeout=10m")
	if !strings.HasPrefix(r.stderr, "notice: gateway/config/timeouts: timeout") {
		t.Errorf("stderr: %s", r.stderr)
	}
}

func TestSeveralFaultsAreAllTold(t *testing.T) {
	n := startNode(t)
	r := n.call("config set gateway/routes/booking 'path=x,backend=y,order=z'")
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if r.exit != exitInvalid || len(lines) < 4 || !strings.HasSuffix(lines[0], "faults. Nothing was written.") {
		t.Errorf("exit %d\n%s", r.exit, r.stderr)
	}
}

func TestGet(t *testing.T) {
	n := startNode(t)
	n.must(`config set app/doc '{"b":{"c":1},"a":"<&>"}' -m 'the first'`)
	n.must("config set app/doc 2")
	n.callWith("no newline", "config set app/text -")
	n.callWith("\xff\x00", "config set app/bytes -")
	for _, test := range []struct{ line, stdout string }{
		{"config get app/doc", "2\n"},
		{"config get app/doc --at 1", "{\n  \"b\": {\n    \"c\": 1\n  },\n  \"a\": \"<&>\"\n}\n"},
		{"config get app/doc --at 1.1 -o jsonl", `{"b":{"c":1},"a":"<&>"}` + "\n"},
		{"config get app/doc --at 1 -o yaml", "b:\n  c: 1\na: <&>\n"},
		{"config get app/doc -o name", "app/doc\n"},
		{"config get app/text", "no newline"},
		{"config get app/text -o json", "\"no newline\"\n"},
		{"config get app/bytes", "\xff\x00"},
		{"config get app/doc --at 1 --detail", "" +
			"key       app/doc\n" +
			"class     operator\n" +
			"revision  1\n" +
			"created   at revision 1\n" +
			"version   1\n" +
			"by        USER\n" +
			"at        TIME\n" +
			"message   the first\n" +
			"\n" +
			"{\n  \"b\": {\n    \"c\": 1\n  },\n  \"a\": \"<&>\"\n}\n"},
		{"config get app/text --detail -o jsonl", `{"key":"app/text","value":"no newline","encoding":"text","class":"operator",` +
			`"modRev":"1.3","createRev":"1.3","version":1,"by":"USER","at":"TIME"}` + "\n"},
	} {
		n.call(test.line).check(t, test.line, 0, test.stdout, "")
	}
	line := "config get app/none"
	n.call(line).check(t, line, exitNotFound, "", "error: key \"app/none\": not found at revision 1.4\ntry: agent config list\n")
	line = "config get app/doc --at x"
	if r := n.call(line); r.exit != exitInvalid || !strings.Contains(r.stderr, `revision "x"`) {
		t.Errorf("%s: %+v", line, r)
	}
}

func TestList(t *testing.T) {
	n := startNode(t)
	line := "config list"
	n.call(line).check(t, line, 0, "", "no keys at revision 0\n")
	line = "config list -o json"
	n.call(line).check(t, line, 0, "[]\n", "")
	n.must("config set app/b 2")
	n.must("config set app/a '{\"x\": 1}' -m why")
	n.must("config set apple 3")
	for _, test := range []struct{ line, stdout string }{
		{"config list -o name", "app/a\napp/b\napple\n"},
		{"config list app -o name", "app/a\napp/b\n"},
		{"config list app/ -o name", "app/a\napp/b\n"},
		{"config list app", "KEY    REV  AGE  BY\napp/a  2    0s   USER\napp/b  1    0s   USER\n"},
		{"config list app --values", "" +
			"KEY    REV  AGE  BY    VALUE\n" +
			"app/a  2    0s   USER  {\"x\":1}\n" +
			"app/b  1    0s   USER  2\n"},
		{"config list app/a -o jsonl", `{"key":"app/a","value":{"x":1},"class":"operator","modRev":"1.2","createRev":"1.2","version":1,"by":"USER","reason":"why","at":"TIME"}` + "\n"},
	} {
		n.call(test.line).check(t, test.line, 0, test.stdout, "")
	}
	if r := n.must("config list --long"); !strings.Contains(r.stdout, "MESSAGE") || !strings.Contains(r.stdout, "why") {
		t.Errorf("config list --long:\n%s", r.stdout)
	}
	line = "config list none"
	n.call(line).check(t, line, 0, "", "no keys under none at revision 3\n")
}

func TestDelete(t *testing.T) {
	n := startNode(t)
	n.must("config set app/a 1")
	n.must("config set app/b 1")
	n.must("config set app/b/c 1")
	n.must("config set apple 1")
	line := "config delete app/a"
	n.call(line).check(t, line, 0, "", "app/a: 1 key deleted\nrevision 5, live on this node in N ms\n")
	line = "config delete app/b -r --dry-run"
	n.call(line).check(t, line, 0, "", "app/b: 2 keys would be deleted; this was a dry run, nothing was written\n")
	line = "config delete app -r --yes"
	n.call(line).check(t, line, 0, "", "app: 2 keys deleted\nrevision 6, live on this node in N ms\n")
	if r := n.must("config list -o name"); r.stdout != "apple\n" {
		t.Errorf("left: %s", r.stdout)
	}
}
