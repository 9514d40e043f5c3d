package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// goodbye is how long a process may take to end by itself.
const goodbye = 10 * time.Second

// process is a program that runs beside the demo and ends with it. One goroutine uses it.
type process struct {
	name, path string
	args       []string
	cmd        *exec.Cmd
	ended      chan struct{} // closed when cmd has; nil before the first start
}

func newProcess(name, path string, args ...string) *process {
	return &process{name: name, path: path, args: args}
}

// start starts it, for the first time or again. died is told when it has ended.
func (p *process) start(died chan<- *process) error {
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = environment(), log, log
	// A group of its own: Ctrl-C is for the demo, which ends the others in its order.
	p.cmd.SysProcAttr = endsWithParent(&syscall.SysProcAttr{Setpgid: true})
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w; make build makes it", p.name, err)
	}
	ended := make(chan struct{})
	p.ended = ended
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // result tells
		close(ended)
		died <- p
	}(p.cmd)
	return nil
}

func (p *process) log() string { return filepath.Join(folder, p.name+".log") }

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	if p.ended == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// result is how it ended.
func (p *process) result() string { return p.cmd.ProcessState.String() }

// stop asks it to end, and ends it if it doesn't.
func (p *process) stop() {
	if !p.running() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended meanwhile
	select {
	case <-p.ended:
	case <-time.After(goodbye):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// await asks again and again until the answer is yes. It gives up when the process has ended, or ctx has.
func await(ctx context.Context, p *process, yes func() bool) error {
	const pause = 50 * time.Millisecond
	for !yes() {
		select {
		case <-time.After(pause):
		case <-p.ended:
			return errors.New(p.result() + "; its log is " + p.log())
		case <-ctx.Done():
			return fmt.Errorf("%w; its log is %s", ctx.Err(), p.log())
		}
	}
	return nil
}
