package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal says whether stream, a reader or a writer, is a terminal. Only a terminal has a window size; /dev/null,
// a character device too, has none.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// style adds colour to words where they go to a terminal whose user did not refuse it.
type style struct{ colour bool }

func styleFor(stream any, noColor bool) style {
	return style{colour: !noColor && os.Getenv("NO_COLOR") == "" && isTerminal(stream)}
}

func (s style) bad(text string) string   { return s.paint("31", text) }
func (s style) good(text string) string  { return s.paint("32", text) }
func (s style) faint(text string) string { return s.paint("2", text) }

// paint wraps text in one of the codes of ECMA-48 §8.3.117.
func (s style) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
