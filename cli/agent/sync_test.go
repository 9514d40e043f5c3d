package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// strace gives a command that runs the agent under strace, or skips.
func strace(t *testing.T, dir string, options ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(path, "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("strace does not work here: %v %s", err, out)
	}
	args := append([]string{"-f", "-y", "-qq"}, options...)
	args = append(args, agentBinary(t), "run", "--data-dir", dir, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	return exec.Command(path, args...)
}

// Before each reply to a write, the log that holds it was synced: the system calls say so.
func TestRepliesFollowTheSync(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(t.TempDir(), "trace")
	p := startCommand(t, dir, strace(t, dir, "-s", "64", "-e", "trace=fdatasync,fsync,write", "-o", trace))
	const writes = 100
	for i := range writes {
		p.must("PUT", "/v1/kv/app/x", fmt.Sprint(i))
	}
	p.kill()
	replies := countSyncedReplies(t, trace)
	if replies < writes {
		t.Errorf("the trace has %d replies that follow a sync; want %d", replies, writes)
	}
}

var (
	syncBegins = regexp.MustCompile(`^(\d+) +f(?:data)?sync\(\d+<[^>]*raft\.db>(?:\)\s+= 0| <unfinished)`)
	syncEnds   = regexp.MustCompile(`^(\d+) +<\.\.\. f(?:data)?sync resumed>\)\s+= 0`)
	reply      = regexp.MustCompile(`^\d+ +write\(\d+<(?:UNIX|socket|TCP)[^"]*"HTTP/1\.1 200`)
)

// countSyncedReplies reads a trace and counts the 200s since whose predecessor
// a sync of the log was completed.
func countSyncedReplies(t *testing.T, trace string) (replies int) {
	t.Helper()
	file, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	syncing, synced := map[string]bool{}, false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if m := syncBegins.FindStringSubmatch(line); m != nil {
			syncing[m[1]] = true
			synced = synced || !strings.HasSuffix(m[0], "<unfinished")
		} else if m := syncEnds.FindStringSubmatch(line); m != nil && syncing[m[1]] {
			synced = true
		} else if reply.MatchString(line) && synced {
			replies, synced = replies+1, false
		}
	}
	return replies
}

// A disk that fails to sync refuses the acknowledgement. Nothing of the write
// is visible, reads and the proxy go on, and what was acknowledged before is
// there after a restart.
func TestFailingSyncIsNotAcknowledged(t *testing.T) {
	dir := t.TempDir()
	p := startAgent(t, dir)
	p.must("PUT", "/v1/kv/app/x", "before")
	p.stop()

	// Opening the store syncs a few times; the later ones fail.
	p = startCommand(t, dir, strace(t, dir, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1+", "-o", "/dev/null"))
	before := p.awaitStatus().Rev
	for range 2 { // the second meets a store that is read-only by now
		code, body, err := p.api("PUT", "/v1/kv/app/x", "after")
		if err != nil || code < 500 || !strings.Contains(body, "read_only") {
			t.Errorf("a write whose sync failed: %d %s %v; want a refusal", code, body, err)
		}
	}
	if got := p.must("GET", "/v1/kv/app/x", ""); got != "before" {
		t.Errorf("the refused write is visible: %s", got)
	}
	if after := p.awaitStatus().Rev; after != before {
		t.Errorf("revision %s became %s", before, after)
	}
	p.kill()

	p = startAgent(t, dir)
	if got := p.must("GET", "/v1/kv/app/x", ""); got != "before" && got != "after" {
		t.Errorf("after the restart: %s", got)
	}
	p.must("PUT", "/v1/kv/app/x", "later")
}
