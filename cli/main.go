package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	urfave "github.com/urfave/cli/v2"
)

// program is one call of the binary and the streams that it was given.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// Main runs the command that args names (without the program's name) and returns its exit code. Interrupt and
// termination signals end the command; a second one ends the process at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (exit int) {
	ctx, stop := untilSignal()
	defer stop()
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr}
	return p.main(ctx, args)
}

// untilSignal returns a context that the first signal ends, with interrupted as its cause. After that signals have
// their usual effect again.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1) // holds the first, the only one that is read
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

func (p *program) main(ctx context.Context, args []string) (exit int) {
	if len(args) > 0 && args[0] == completeCommand {
		return p.complete(ctx, args[1:])
	}
	if slices.Equal(args, []string{"--version"}) {
		args = []string{"version"}
	}
	root := p.tree()
	call, err := understand(root, args)
	switch {
	case err != nil:
	case call.help:
		err = writeHelp(p.stdout, call.command, call.path)
	default:
		err = p.app(root).RunContext(ctx, call.words())
	}
	noColor := slices.ContainsFunc(call.flags, func(f flagWord) bool { return f.name == "no-color" })
	return report(p.stderr, styleFor(p.stderr, noColor), call.advise(err), call.effect())
}

// app gives the tree to urfave/cli, which parses the flags of one command and calls it.
func (p *program) app(root *urfave.Command) *urfave.App {
	return &urfave.App{
		Name: root.Name, Commands: root.Subcommands, HideHelp: true, HideVersion: true,
		DisableSliceFlagSeparator: true, // a comma is part of a file's name
		Reader:                    p.stdin, Writer: p.stdout, ErrWriter: p.stderr,
		ExitErrHandler: func(*urfave.Context, error) {}, // errors come back to main; nothing else exits
		OnUsageError:   root.OnUsageError,
	}
}
