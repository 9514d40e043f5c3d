//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"grapevine/bench/wire"
)

// runWrk runs wrk, which takes whole seconds only, and leaves the requests uncounted that are under way at the end. That
// is one for each connection, and much where they are many and bodies are large; so it is a check, and not the rule.
func (p *plan) runWrk(ctx context.Context, port int, w work) (row, error) {
	seconds := max(1, int((p.duration+time.Second-1)/time.Second))
	args := []string{
		"-c", p.load, p.wrk, "-t1", fmt.Sprintf("-c%d", w.conns), fmt.Sprintf("-d%ds", seconds), "--timeout", "10s", "--latency",
		"-H", "Host: " + wire.Host,
	}
	for _, field := range wire.Fields {
		args = append(args, "-H", field)
	}
	cmd := exec.CommandContext(ctx, "taskset", append(args, fmt.Sprintf("http://127.0.0.1:%d%s", port, w.path()))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return row{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	return parseWrk(string(out))
}

var (
	wrkTotal   = regexp.MustCompile(`(\d+) requests in ([\d.]+)(us|ms|s|m)`)
	wrkStatus  = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkSockets = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
	wrkQuant   = regexp.MustCompile(`(?m)^\s+(50|99)%\s+([\d.]+)(us|ms|s|m)`)
)

// parseWrk reads what wrk prints. Its requests are those that were answered, with whatever status.
func parseWrk(out string) (row, error) {
	total := wrkTotal.FindStringSubmatch(out)
	if total == nil {
		return row{}, fmt.Errorf("wrk printed no total: %s", out)
	}
	got := row{Client: "wrk", Requests: number(total[1]), Seconds: wrkTime(total[2], total[3]).Seconds()}
	if m := wrkStatus.FindStringSubmatch(out); m != nil {
		got.Failed = number(m[1])
	}
	if m := wrkSockets.FindStringSubmatch(out); m != nil {
		for _, count := range m[1:] { // these were not answered, so they are not in the total
			got.Failed += number(count)
			got.Requests += number(count)
		}
	}
	for _, m := range wrkQuant.FindAllStringSubmatch(out, -1) {
		took := int(wrkTime(m[2], m[3]).Microseconds())
		if m[1] == "50" {
			got.P50 = took
		} else {
			got.P99 = took
		}
	}
	return got, nil
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // the expressions above let only digits through
	return n
}

func wrkTime(value, unit string) time.Duration {
	units := map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute}
	v, _ := strconv.ParseFloat(value, 64)
	return time.Duration(v * float64(units[unit]))
}
