//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// stopPatience is how long a process may take to end after SIGTERM.
	stopPatience = 5 * time.Second
	// readyPatience covers a configuration of 10,000 routes.
	readyPatience = 60 * time.Second
	// pollPause lies between two looks at something that is awaited.
	pollPause = 5 * time.Millisecond
	// ticksPerSecond is the unit of /proc/PID/stat, 100 on every architecture of Linux (USER_HZ).
	ticksPerSecond = 100
)

// process is a program that the bench started, in a process group of its own.
type process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// start runs a program on the given CPUs. What it says goes to a file beside its configuration.
func start(cpus string, dir string, args []string) (*process, error) {
	p := &process{log: filepath.Join(dir, "log.txt"), exited: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command("taskset", append([]string{"-c", cpus}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Dir = dir
	// Caddy writes to its home; nothing may be left behind.
	p.cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	// A group of its own keeps Ctrl-C to the bench, which stops its children in order; the death signal is for a
	// bench that was killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// stop ends the process and all that it started.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopPatience):
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // workers that outlived it; the group is ours
	<-p.exited
}

// said is the end of the process's output.
func (p *process) said() string {
	out, _ := os.ReadFile(p.log)
	const most = 2000
	return strings.TrimSpace(string(out[max(0, len(out)-most):]))
}

// awaitStatus waits until a GET of path is answered with a status, over a new connection each time. It returns how many
// got no answer before.
func (p *process) awaitStatus(ctx context.Context, port int, path string, status int) (unanswered int, err error) {
	deadline := time.Now().Add(readyPatience)
	for {
		got, err := get(ctx, port, path)
		if err != nil {
			unanswered++
		}
		switch {
		case err == nil && got == status:
			return unanswered, nil
		case ctx.Err() != nil:
			return unanswered, ctx.Err()
		case time.Now().After(deadline):
			return unanswered, fmt.Errorf("GET %s at port %d: status %d, %v, and not %d within %v: %s", path, port, got, err, status, readyPatience, p.said())
		}
		select {
		case <-p.exited:
			return unanswered, fmt.Errorf("it ended: %s", p.said())
		case <-time.After(pollPause):
		}
	}
}

// get asks once on a connection of its own.
func get(ctx context.Context, port int, path string) (int, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: readyPatience}
	request, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

// freePort is one that nobody listened on a moment ago. The programs under test can't all be told to take any.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// usage is what a process tree has used since it began.
type usage struct {
	user, system float64 // CPU seconds, with those of its children that have ended
	resident     int     // bytes in memory at present
}

func (u usage) since(before usage) usage {
	return usage{user: u.user - before.user, system: u.system - before.system, resident: u.resident}
}

// usage adds up the process and all its descendants.
func (p *process) usage() (usage, error) {
	all, err := processes()
	if err != nil {
		return usage{}, err
	}
	root := p.cmd.Process.Pid
	if _, ok := all[root]; !ok {
		return usage{}, fmt.Errorf("process %d has ended: %s", root, p.said())
	}
	var sum usage
	for pid, s := range all {
		if !descends(all, pid, root) {
			continue
		}
		sum.user += float64(s.user) / ticksPerSecond
		sum.system += float64(s.system) / ticksPerSecond
		sum.resident += s.pages * os.Getpagesize()
	}
	return sum, nil
}

func descends(all map[int]stat, pid, root int) bool {
	for pid > 1 {
		if pid == root {
			return true
		}
		pid = all[pid].parent
	}
	return false
}

func processes() (map[int]stat, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := map[int]stat{}
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil { // it ended just now
			continue
		}
		pid, s, err := parseStat(string(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[pid] = s
	}
	return all, nil
}

// stat is what the bench reads of /proc/PID/stat.
type stat struct {
	parent       int
	user, system int // ticks, with those of children that have ended
	pages        int // resident
}

// parseStat reads a line as proc_pid_stat(5) describes it. The name in parentheses may hold anything.
func parseStat(line string) (int, stat, error) {
	first, _, _ := strings.Cut(line, " ")
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 22 {
		return 0, stat{}, fmt.Errorf("%q has too few fields", line)
	}
	var errs []error
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		errs = append(errs, err)
		return n
	}
	field := func(n int) int { return number(fields[n-3]) } // by the page's numbers, of which the third is the first here
	s := stat{parent: field(4), user: field(14) + field(16), system: field(15) + field(17), pages: field(24)}
	return number(first), s, errors.Join(errs...)
}

// allowedCPUs are those that this process may run on.
func allowedCPUs() ([]int, error) {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if list, ok := strings.CutPrefix(lines.Text(), "Cpus_allowed_list:"); ok {
			return parseCPUs(strings.TrimSpace(list))
		}
	}
	return nil, errors.New("/proc/self/status names no Cpus_allowed_list")
}

// parseCPUs reads a list as 0-3,8.
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		low, err := strconv.Atoi(from)
		if err != nil {
			return nil, fmt.Errorf("CPUs %q: %w", list, err)
		}
		high, err := strconv.Atoi(to)
		if err != nil {
			return nil, fmt.Errorf("CPUs %q: %w", list, err)
		}
		for cpu := low; cpu <= high; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// loadAverage is that of the last minute.
func loadAverage() string {
	line, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(line), " ")
	return first
}

// raiseFileLimit lets this process and its children open as many files as they may.
func raiseFileLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
