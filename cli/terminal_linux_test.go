package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pair of which the second is a terminal.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return keyboard, terminal
}

func TestOnlyTerminalsAreTerminals(t *testing.T) {
	_, terminal := openTerminal(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if !isTerminal(terminal) || isTerminal(null) || isTerminal(strings.NewReader("")) {
		t.Errorf("terminal %t, /dev/null %t, reader %t", isTerminal(terminal), isTerminal(null), isTerminal(strings.NewReader("")))
	}
	t.Setenv("NO_COLOR", "")
	if !styleFor(terminal, false).colour || styleFor(terminal, true).colour || styleFor(null, false).colour {
		t.Error("colours belong on terminals, without --no-color")
	}
	t.Setenv("NO_COLOR", "yes")
	if styleFor(terminal, false).colour {
		t.Error("NO_COLOR is not heeded")
	}
}

func TestDeletingManyAsksOnATerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	n := startNode(t)
	for _, test := range []struct {
		answer string
		exit   int
		left   string
	}{
		{"\n", exitRefused, "app/a\napp/b\n"},
		{"no\n", exitRefused, "app/a\napp/b\n"},
		{"\x04", exitRefused, "app/a\napp/b\n"}, // the end of the input
		{"Yes\n", 0, ""},
	} {
		n.must("config set app/a 1")
		n.must("config set app/b 1")
		keyboard, terminal := openTerminal(t)
		p := &program{stdin: terminal, stdout: io.Discard, stderr: terminal}
		ended := make(chan int, 1)
		go func() { ended <- p.main(t.Context(), []string{"config", "delete", "-r", "app", "--addr", n.address}) }()
		asked, err := bufio.NewReader(keyboard).ReadString(']')
		if err != nil || asked != "delete app: 2 keys? [y/N]" {
			t.Fatalf("asked %q (%v)", asked, err)
		}
		io.WriteString(keyboard, test.answer)
		if exit := <-ended; exit != test.exit {
			t.Errorf("answer %q: exit %d, want %d", test.answer, exit, test.exit)
		}
		if r := n.must("config list app -o name"); r.stdout != test.left {
			t.Errorf("answer %q left %q", test.answer, r.stdout)
		}
	}
}
