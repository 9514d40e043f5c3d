// Package cli turns words into calls of the agent's HTTP API, and the answers into tables or JSON.
//
// Each command is one file. A command reads its arguments, asks the agent once or twice, and prints data on stdout and
// everything else on stderr, so that its output can be piped. What goes wrong is a failure, which carries the exit code,
// whether anything was written, and the next command to try.
//
// The package keeps no state between calls of Main, and Main may be called concurrently.
package cli
