package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// rawJudge is the backend behind the nodes. It reads requests by rules that leave no
// choice, and takes it for a fault of the nodes when something else comes.
type rawJudge struct {
	*ledger
	turns atomic.Int32 // responses so far
}

func startRawJudge(t testing.TB) (*ledger, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	j := &rawJudge{ledger: newLedger()}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				j.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		open.Wait()
	})
	return j.ledger, "http://" + listener.Addr().String()
}

// hasty is a field that asks the judge to answer before it reads the body.
const hasty = "X-Hasty: 1\r\n"

func (j *rawJudge) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		again := true
		early := func(m *message, raw string) {
			if m.early = strings.Contains(raw, "\r\n"+hasty); m.early {
				again = j.answer(conn, *m, raw)
			}
		}
		m, raw, err := readStrictly(in, early)
		switch {
		case raw == "" && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)):
			return
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET): // the node gave up
			j.add(netip.AddrPort{}, m)
			return
		case err != nil:
			j.fault("%.500q: %v", raw, err)
			return
		}
		j.add(netip.AddrPort{}, m)
		if !m.early {
			again = j.answer(conn, m, raw)
		}
		if !again {
			return
		}
	}
}

// answer sends back what came, in one of the ways that there are.
func (j *rawJudge) answer(conn net.Conn, m message, raw string) (again bool) {
	const ok = "HTTP/1.1 200 OK\r\n"
	head, body := ok+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(raw)), raw
	again = true
	switch way := j.turns.Add(1) % 6; {
	case m.method == "HEAD":
		body = ""
	case way == 1:
		head, body = ok+"Transfer-Encoding: chunked\r\n\r\n", chunked(raw)+"0\r\n\r\n"
	case way == 2:
		head = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + head
	case way == 3:
		head, again = ok+"\r\n", false
	case way == 4:
		head, body = ok+"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n", chunked(raw)+"0\r\nX-Sum: 1\r\n\r\n"
	}
	_, err := io.WriteString(conn, head+body)
	return again && err == nil
}

func chunked(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := min(len(s), 100)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, s[:n])
		s = s[n:]
	}
	return b.String()
}

// readStrictly reads a request as RFC 9112 has a sender write it. raw is what was
// read of it. early is called before the body, if there is one.
func readStrictly(in *bufio.Reader, early func(m *message, raw string)) (m message, raw string, err error) {
	var all strings.Builder
	line := func() (string, error) {
		s, err := in.ReadString('\n')
		all.WriteString(s)
		if err == io.EOF && all.Len() > 0 {
			return "", io.ErrUnexpectedEOF
		} else if err != nil {
			return "", err
		}
		text, ends := strings.CutSuffix(s, "\r\n")
		if !ends || strings.ContainsAny(text, "\r\n\x00") {
			return "", fmt.Errorf("line %q", s)
		}
		return text, nil
	}
	first, err := line()
	if err != nil {
		return m, all.String(), err
	}
	words := strings.Split(first, " ")
	if len(words) != 3 || words[2] != "HTTP/1.1" {
		return m, all.String(), fmt.Errorf("request line %q", first)
	}
	m.method, m.target, m.forwarded = words[0], words[1], true
	var length, coding []string
	for {
		field, err := line()
		if err != nil {
			return m, all.String(), err
		}
		if field == "" {
			break
		}
		name, value, ok := strings.Cut(field, ": ")
		if !ok || strings.ContainsAny(name, " \t") {
			return m, all.String(), fmt.Errorf("field %q", field)
		}
		switch strings.ReplaceAll(strings.ToLower(name), "_", "-") {
		case "content-length":
			length = append(length, value)
		case "transfer-encoding":
			coding = append(coding, value)
		case "x-correlation-id":
			m.id = value
		}
	}
	if len(length)+len(coding) > 0 {
		early(&m, all.String())
	}
	m.body, err = readBody(in, &all, line, length, coding)
	m.whole = err == nil
	return m, all.String(), err
}

func readBody(in io.Reader, all *strings.Builder, line func() (string, error), length, coding []string) (string, error) {
	take := func(n int64) (string, error) {
		var b strings.Builder
		_, err := io.CopyN(io.MultiWriter(&b, all), in, n)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return b.String(), err
	}
	switch {
	case len(length) == 1 && len(coding) == 0:
		n, err := strconv.ParseUint(length[0], 10, 63)
		if err != nil {
			return "", err
		}
		return take(int64(n))
	case len(length) == 0 && len(coding) == 0:
		return "", nil
	case len(length) > 0 || len(coding) > 1 || coding[0] != "chunked":
		return "", fmt.Errorf("framing: lengths %q, codings %q", length, coding)
	}
	var body strings.Builder
	for {
		text, err := line()
		if err != nil {
			return body.String(), err
		}
		size, err := strconv.ParseUint(text, 16, 31)
		if err != nil {
			return body.String(), fmt.Errorf("chunk size %q", text)
		}
		if size == 0 {
			break
		}
		data, err := take(int64(size))
		if body.WriteString(data); err != nil {
			return body.String(), err
		}
		if text, err := line(); err != nil || text != "" {
			return body.String(), errors.Join(err, fmt.Errorf("chunk's end %q", text))
		}
	}
	for {
		if text, err := line(); err != nil || text == "" {
			return body.String(), err
		}
	}
}

// startStdJudge has the server of net/http as the backend.
func startStdJudge(t testing.TB) (*ledger, string) {
	t.Helper()
	l := newLedger()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := message{id: r.Header.Get("X-Correlation-Id"), method: r.Method, target: r.RequestURI, forwarded: true, early: r.Header.Get("X-Hasty") != ""}
		answer := func() {
			fmt.Fprintf(w, "%s %s\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Host)
			_ = r.Header.Write(w)
		}
		if control := http.NewResponseController(w); m.early {
			_ = control.EnableFullDuplex()
			answer()
			_ = control.Flush()
		}
		body, err := io.ReadAll(r.Body)
		m.body, m.whole = string(body), err == nil
		if l.add(netip.AddrPort{}, m); !m.early {
			answer()
			w.Write(body)
		}
	}))
	t.Cleanup(server.Close)
	return l, server.URL
}
