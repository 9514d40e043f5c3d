package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv/memnet"
)

const (
	hostA = "10.0.0.1"
	hostB = "10.0.0.2"
)

// inBubble runs f with a network of two hosts in fake time. The bubble itself
// fails when a goroutine is left.
func inBubble(t *testing.T, f func(t *testing.T, n *memnet.Network, a, b *memnet.Host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		f(t, n, n.Host(hostA), n.Host(hostB))
	})
}

// stream connects a to b.
func stream(t *testing.T, a, b *memnet.Host) (near, far net.Conn) {
	t.Helper()
	l, err := b.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = a.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("write %q: got %d, %v", text, n, err)
	}
}

// wantRead reads once.
func wantRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, 1024)
	n, err := c.Read(b)
	if err != nil || string(b[:n]) != want {
		t.Fatalf("read: got %q, %v, want %q", b[:n], err, want)
	}
}

func wantReadError(t *testing.T, c net.Conn, want error) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
		t.Fatalf("read: got %d, %v, want %v", n, err, want)
	}
}

// wantTook checks how much fake time passed.
func wantTook(t *testing.T, since time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(since); got != want {
		t.Fatalf("took %v, want %v", got, want)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestStreamCarriesBothWays(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		write(t, near, "question")
		wantRead(t, far, "question")
		write(t, far, "answer")
		wantRead(t, near, "answer")
		if near.RemoteAddr().String() != far.LocalAddr().String() || near.LocalAddr().String() != far.RemoteAddr().String() {
			t.Errorf("addresses: %v to %v, and %v to %v", near.LocalAddr(), near.RemoteAddr(), far.LocalAddr(), far.RemoteAddr())
		}
		if _, ok := near.LocalAddr().(*net.TCPAddr); !ok {
			t.Errorf("address is a %T, want a *net.TCPAddr", near.LocalAddr())
		}
	})
}

// The delay of each write differs; the order of the bytes does not.
func TestStreamKeepsOrderAndAllBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		n.SetDelay(time.Millisecond, 50*time.Millisecond)
		n.SetLoss(0.9)
		n.SetDuplicate(0.9)
		near, far := stream(t, a, b)
		var want bytes.Buffer
		go func() {
			defer near.Close()
			for i := range 200 {
				fmt.Fprintf(near, "line %d\n", i)
				<-time.After(time.Millisecond)
			}
		}()
		for i := range 200 {
			fmt.Fprintf(&want, "line %d\n", i)
		}
		got, err := io.ReadAll(far)
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("got %d bytes, %v, want %d", len(got), err, want.Len())
		}
	})
}

func TestStreamDelayAndDialRoundTrip(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		n.SetDelay(10*time.Millisecond, 10*time.Millisecond)
		began := time.Now()
		near, far := stream(t, a, b)
		wantTook(t, began, 20*time.Millisecond)
		write(t, near, "x")
		wantRead(t, far, "x")
		wantTook(t, began, 30*time.Millisecond)
	})
}

func TestWriteWaitsForAReaderTooFarBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		near.SetWriteDeadline(time.Now().Add(time.Second))
		sent, err := near.Write(make([]byte, 1<<20))
		if sent == 0 || sent == 1<<20 || !isTimeout(err) {
			t.Fatalf("write without a reader: got %d, %v", sent, err)
		}
		near.SetWriteDeadline(time.Time{})
		go func() {
			near.Write(make([]byte, 1<<20-sent))
			near.Close()
		}()
		if got, err := io.Copy(io.Discard, far); got != 1<<20 || err != nil {
			t.Fatalf("read: got %d, %v", got, err)
		}
	})
}

func TestTwoWritersStayWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		const size = 400 << 10 // more than fits at once
		var writers sync.WaitGroup
		for _, letter := range []string{"a", "b"} {
			writers.Go(func() { near.Write(bytes.Repeat([]byte(letter), size)) })
		}
		go func() {
			writers.Wait()
			near.Close()
		}()
		got, err := io.ReadAll(far)
		if err != nil || len(got) != 2*size || len(slices.Compact(got)) != 2 {
			t.Fatalf("got %d bytes, %v: mixed", len(got), err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		began := time.Now()
		near.SetReadDeadline(began.Add(time.Second))
		wantReadError(t, near, os.ErrDeadlineExceeded)
		wantTook(t, began, time.Second)
		wantReadError(t, near, os.ErrDeadlineExceeded)

		near.SetDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { near.SetReadDeadline(time.Now()) })
		wantReadError(t, near, os.ErrDeadlineExceeded)
		wantTook(t, began, time.Second+time.Minute)

		near.SetDeadline(time.Now().Add(time.Hour))
		write(t, far, "x")
		wantRead(t, near, "x")
	})
}

func TestListenerDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		l, err := a.Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		l.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Now().Add(time.Second))
		if _, err := l.Accept(); !isTimeout(err) {
			t.Fatalf("accept: got %v, want a timeout", err)
		}
	})
}

func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		write(t, near, "last words")
		if err := near.Close(); err != nil {
			t.Fatal(err)
		}
		wantRead(t, far, "last words")
		wantReadError(t, far, io.EOF)
		wantReadError(t, far, io.EOF)
		wantReadError(t, near, net.ErrClosed)
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after close: got %v", err)
		}
		if err := near.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: got %v", err)
		}
		// The first write is sent before the reset comes back.
		write(t, far, "nobody is there")
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write to a closed end: got %v, want a reset", err)
		}
	})
}

func TestCloseWithUnreadBytesResets(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		write(t, far, "seen")
		write(t, near, "not read")
		far.Close()
		wantRead(t, near, "seen")
		wantReadError(t, near, syscall.ECONNRESET)
	})
}

func TestCloseWakesWhoWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		go func() {
			<-time.After(time.Second)
			near.Close()
		}()
		wantReadError(t, near, net.ErrClosed)
		wantReadError(t, far, io.EOF)

		l, _ := a.Listen(0)
		time.AfterFunc(time.Second, func() { l.Close() })
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: got %v", err)
		}
	})
}

func TestHalfClose(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		write(t, near, "request")
		near.(interface{ CloseWrite() error }).CloseWrite()
		if got, err := io.ReadAll(far); string(got) != "request" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write after the half close: got %v", err)
		}
		write(t, far, "response")
		far.Close()
		if got, err := io.ReadAll(near); string(got) != "response" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

func TestDialRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		if _, err := a.Dial(t.Context(), hostB+":7946"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("no listener: got %v", err)
		}
		if _, err := a.Dial(t.Context(), "nowhere"); err == nil {
			t.Error("a name was dialled")
		}
		began := time.Now()
		if _, err := a.Dial(t.Context(), "10.9.9.9:1"); !isTimeout(err) {
			t.Errorf("no host: got %v, want a timeout", err)
		}
		wantTook(t, began, memnet.DialTimeout)
	})
}

func TestListenerCloseResetsWhoWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		l, _ := b.Listen(7946)
		if _, err := b.Listen(7946); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("second listener: got %v", err)
		}
		c, err := a.Dial(t.Context(), hostB+":7946")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		wantReadError(t, c, syscall.ECONNRESET)
		if _, err := b.Listen(7946); err != nil {
			t.Errorf("the port was not given back: %v", err)
		}
	})
}

func TestPartitionIsSilentAndStreamsGoOnAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		l, _ := b.Listen(7946)
		defer l.Close()
		write(t, near, "before ")
		n.Partition([]string{hostA}, []string{hostB})
		write(t, near, "during")
		wantRead(t, far, "before ") // it had arrived
		far.SetReadDeadline(time.Now().Add(time.Hour))
		wantReadError(t, far, os.ErrDeadlineExceeded)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Dial(ctx, hostB+":7946"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial: got %v", err)
		}
		n.Heal()
		far.SetReadDeadline(time.Time{})
		wantRead(t, far, "during")
		if _, err := a.Dial(t.Context(), hostB+":7946"); err != nil {
			t.Errorf("dial after the partition: %v", err)
		}
	})
}

func TestDialGoesOnWhenHealedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		l, _ := b.Listen(7946)
		defer l.Close()
		n.Block(hostB, hostA)
		time.AfterFunc(2*time.Second, n.Heal)
		began := time.Now()
		if _, err := a.Dial(t.Context(), hostB+":7946"); err != nil {
			t.Fatal(err)
		}
		wantTook(t, began, 2*time.Second)
	})
}

func TestBlockIsOneWay(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		n.Block(hostA, hostB)
		write(t, far, "hello")
		wantRead(t, near, "hello")
		write(t, near, "hello?")
		far.SetReadDeadline(time.Now().Add(time.Hour))
		wantReadError(t, far, os.ErrDeadlineExceeded)
	})
}

// The way is cut while bytes are on it.
func TestPartitionHoldsBytesUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		n.SetDelay(10*time.Millisecond, 10*time.Millisecond)
		near, far := stream(t, a, b)
		write(t, near, "x")
		near.Close()
		n.Partition([]string{hostA}, []string{hostB})
		<-time.After(time.Minute)
		n.Heal()
		began := time.Now()
		wantRead(t, far, "x")
		wantReadError(t, far, io.EOF)
		wantTook(t, began, 10*time.Millisecond)
	})
}

func TestCrashResets(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		l, _ := b.Listen(7946)
		write(t, far, "last words")
		b.Crash()
		wantRead(t, near, "last words")
		wantReadError(t, near, syscall.ECONNRESET)
		wantReadError(t, far, net.ErrClosed)
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after the crash: got %v", err)
		}
		if _, err := a.Dial(t.Context(), hostB+":7946"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial after the crash: got %v", err)
		}
		if _, err := b.Listen(7946); err != nil {
			t.Errorf("listen again: %v", err)
		}
	})
}

func TestPowerOffIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		near, far := stream(t, a, b)
		write(t, far, "arrived")
		b.PowerOff()
		wantRead(t, near, "arrived")
		wantReadError(t, far, net.ErrClosed)
		write(t, near, "anybody?")
		near.SetReadDeadline(time.Now().Add(time.Hour))
		wantReadError(t, near, os.ErrDeadlineExceeded)
		if _, err := a.Dial(t.Context(), hostB+":7946"); !isTimeout(err) {
			t.Errorf("dial: got %v", err)
		}
		if _, err := b.Dial(t.Context(), hostA+":7946"); !errors.Is(err, syscall.ENETDOWN) {
			t.Errorf("dial of a dead machine: got %v", err)
		}
		if _, err := b.Listen(7946); err != nil {
			t.Fatal(err)
		}
		near.SetReadDeadline(time.Time{})
		wantReadError(t, near, syscall.ECONNRESET)
	})
}
