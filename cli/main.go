package cli

import "io"

// Main runs the command that args names (without the program's name) and returns its exit code. Interrupt and
// termination signals end the command; a second one ends the process at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (exit int) {
	return 0
}
