package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"syscall"
)

// child is the command of agent announce.
type child struct {
	command *exec.Cmd
	exited  chan error // childExit, once
}

// childExit is the exit code of a command that has ended; it says all that there is to say.
type childExit int

func (c childExit) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

func (c childExit) ExitCode() int { return int(c) }

// startChild runs a command. The error has the exit code of env(1).
func (p *program) startChild(words []string) (*child, error) {
	c := &child{command: exec.Command(words[0], words[1:]...), exited: make(chan error, 1)}
	c.command.Stdin, c.command.Stdout, c.command.Stderr = p.stdin, p.stdout, p.stderr
	c.command.SysProcAttr = bound(isTerminal(p.stdin))
	started := make(chan error)
	go c.run(started)
	err := <-started
	if err == nil {
		return c, nil
	}
	f := &failure{code: exitNotRun, problem: fmt.Sprintf("%q can't be run: %v", words[0], root(err)), cause: err}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		f.code = exitNoFile
	}
	return nil, f
}

// run starts the command and waits for it. The thread that started it is kept: the kernel ends the command with that.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.command.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	err := c.command.Wait()
	if c.command.ProcessState == nil {
		c.exited <- err
		return
	}
	status, ok := c.command.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		c.exited <- childExit(exitSignal + int(status.Signal()))
		return
	}
	c.exited <- childExit(c.command.ProcessState.ExitCode())
}

// signal sends a signal, unless the command has ended.
func (c *child) signal(s syscall.Signal) { _ = c.command.Process.Signal(s) }
