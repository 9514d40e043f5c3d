package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"grapevine/gateway/spec"
)

// The exit codes that scripts may rely on. A signal ends a command with 128 and its number.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInvalid     = 3 // what was given is invalid; nothing was written
	exitNotFound    = 4
	exitConflict    = 5 // the compare of --cas or --create did not hold
	exitNoQuorum    = 6
	exitUnreachable = 7
	exitDenied      = 8
	exitWait        = 9  // written, but not yet live where --wait asked for
	exitRefused     = 10 // needs a confirmation or --yes
	exitSignal      = 128
)

// exitCodes are the codes with their meaning, for people.
func exitCodes() [][]string {
	return [][]string{
		{"0", "done"},
		{"1", "failed"},
		{"2", "wrong usage"},
		{"3", "invalid input, nothing written"},
		{"4", "not found"},
		{"5", "the condition of --cas or --create did not hold"},
		{"6", "no leader or no quorum"},
		{"7", "no agent answers"},
		{"8", "permission denied"},
		{"9", "written, but not live in time where --wait asked for"},
		{"10", "refused without --yes"},
		{"11", "another live node has this node's id"},
		{"125", "agent announce: it failed itself"},
		{"126", "agent announce: the command can't be run"},
		{"127", "agent announce: the command is not there"},
		{"128+n", "ended by signal n"},
	}
}

// outcome is what became of a write that failed. Its zero value is the usual case.
type outcome int

const (
	nothingWritten outcome = iota
	written
	unknownOutcome // the request left, and no answer came
)

// effect is what a command does, beside what it says.
type effect int

const (
	looks   effect = iota
	writes         // changes what is stored
	changes        // changes the cluster
)

// after tells the outcome for a command that had an effect to have.
func (o outcome) after(e effect) string {
	if e == changes {
		return [...]string{
			nothingWritten: "Nothing was changed.",
			written:        "It was done.",
			unknownOutcome: "It may have been done.",
		}[o]
	}
	return [...]string{
		nothingWritten: "Nothing was written.",
		written:        "The change was written.",
		unknownOutcome: "The change may have been written.",
	}[o]
}

// failure is the error of a command. Problem says what failed, on which thing and why, without a full stop. Details
// are lines below it. Next is a command to try, or empty. Outcome counts for commands that have an effect.
type failure struct {
	code    int
	problem string
	details []string
	outcome outcome
	next    string
	cause   error
}

func (f *failure) Error() string { return f.problem }

func (f *failure) Unwrap() error { return f.cause }

func (f *failure) ExitCode() int { return f.code }

func usageError(format string, values ...any) *failure {
	return &failure{code: exitUsage, problem: fmt.Sprintf(format, values...)}
}

func invalid(format string, values ...any) *failure {
	return &failure{code: exitInvalid, problem: fmt.Sprintf(format, values...)}
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return i.signal.String() }

func (i interrupted) ExitCode() int { return exitSignal + int(i.signal) }

// exitCode is the code of the first error in err's chain that has one.
func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode()
	}
	return exitFailure
}

// report tells err to a person and returns the exit code. A signal ends a command that only reads without a word, since
// whoever sent the signal knows.
func report(w io.Writer, style style, err error, effect effect) int {
	if err == nil {
		return 0
	}
	if code, ended := errors.AsType[childExit](err); ended {
		return code.ExitCode() // the command has said itself what there is to say
	}
	if _, bySignal := errors.AsType[interrupted](err); !bySignal || effect != looks {
		asFailure(err).tell(w, style, effect)
	}
	return exitCode(err)
}

// asFailure finds the failure in err's chain, or makes one.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if faults, ok := errors.AsType[spec.Faults](err); ok {
		problem, details := faultLines("configuration", faults)
		return &failure{code: exitCode(err), problem: problem, details: details, cause: err}
	}
	problem, details := err.Error(), []string(nil)
	if first, rest, more := strings.Cut(problem, "\n"); more {
		problem, details = first, strings.Split(rest, "\n")
	}
	return &failure{code: exitCode(err), problem: problem, details: details}
}

func (f *failure) tell(w io.Writer, style style, effect effect) {
	problem := f.problem
	if effect != looks {
		problem = strings.TrimSuffix(problem, ".") + ". " + f.outcome.after(effect)
	}
	fmt.Fprintf(w, "%s %s\n", style.bad("error:"), printable(problem))
	for _, line := range f.details {
		fmt.Fprintf(w, "  %s\n", printable(line))
	}
	if f.next != "" {
		fmt.Fprintf(w, "try: %s\n", f.next)
	}
}
