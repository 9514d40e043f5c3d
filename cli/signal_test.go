package cli

import (
	"bufio"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// The signal goes to this whole process, so that no other test may run beside this one.
func TestInterruptEndsACommand(t *testing.T) {
	n := startNode(t)
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		stderr, errs := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			ended <- Main([]string{"config", "watch", "app", "--addr", n.address}, strings.NewReader(""), io.Discard, errs)
			errs.Close()
		}()
		said := bufio.NewReader(stderr)
		if line, err := said.ReadString('\n'); err != nil || line != "watching app from revision 0\n" {
			t.Fatalf("%q, %v", line, err)
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if err := self.Signal(sent); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(said)
		if exit := <-ended; exit != 128+int(sent) || len(rest) > 0 || err != nil {
			t.Errorf("%s: exit %d, %q, %v", sent, exit, rest, err)
		}
	}
}
