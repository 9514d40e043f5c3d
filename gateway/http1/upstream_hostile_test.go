package http1_test

import (
	"strings"
	"testing"
	"time"
)

// hostileResponse is what a destination sends that must not be taken as it looks
// to some reader. Outcomes: the failed phase, a body that is whole, or one that is
// cut. The connection is never used again.
type hostileResponse struct {
	name, bytes string
	rfc, want   string
	// closes tells whether the destination closes behind it.
	closes bool
}

func hostileResponses() []hostileResponse {
	const (
		ok      = "HTTP/1.1 200 OK\r\n"
		chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
		five    = "Content-Length: 5\r\n"
		refused = "exchange: "
	)
	const badStatus = refused + "The status line is not a version, a status from 100 to 599 and a phrase."
	return []hostileResponse{
		// The status line.
		{"no HTTP", "no http at all\r\n\r\n", "9112 §4", badStatus, false},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", "9110 §2.5", badStatus, false},
		{"lower case", "http/1.1 200 OK\r\n\r\n", "9112 §2.3", badStatus, false},
		{"an empty line before", "\r\n" + helloOK, "9112 §4", badStatus, false},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", "9112 §4", badStatus, false},
		{"status 099", "HTTP/1.1 099 Odd\r\n\r\n", "9110 §15", badStatus, false},
		{"status 600", "HTTP/1.1 600 Odd\r\n\r\n", "9110 §15", badStatus, false},
		{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", "9112 §4", badStatus, false},
		{"HTTP/0.9", "<html>hello</html>", "9112 §2.3", badStatus, true},
		// Lines.
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", "9112 §2.2", refused + "A line ends with LF alone; it must end with CRLF.", false},
		{"bare CR", ok + "X: a\rb\r\n" + five + "\r\nhello", "9112 §2.2", refused + "A CR is not followed by LF.", false},
		{"NUL", ok + "X: a\x00b\r\n" + five + "\r\nhello", "9110 §5.5", refused + "A field's value has a control byte.", false},
		{"folded line", ok + "X: a\r\n b\r\n" + five + "\r\nhello", "9112 §5.2", refused + "A field line begins with whitespace.", false},
		{"space before colon", ok + "Content-Length : 5\r\n\r\nhello", "9112 §5.1", refused + "Whitespace stands between a field's name and its colon.", false},
		{"no colon", ok + "Content-Length\r\n\r\nhello", "9112 §5", refused + "A field line has no name that is a token followed by a colon.", false},
		// Framing.
		{"length and chunks", ok + five + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "9112 §6.3", refused + "The message has Content-Length and Transfer-Encoding.", false},
		{"two lengths", ok + five + "Content-Length: 6\r\n\r\nhello!", "9112 §6.3", refused + "The message has more than one Content-Length.", false},
		{"equal lengths", ok + five + five + "\r\nhello", "9112 §6.3", refused + "The message has more than one Content-Length.", false},
		{"negative length", ok + "Content-Length: -5\r\n\r\nhello", "9110 §8.6", refused + "Content-Length is no decimal number below 2^63.", false},
		{"signed length", ok + "Content-Length: +5\r\n\r\nhello", "9110 §8.6", refused + "Content-Length is no decimal number below 2^63.", false},
		{"length of 2^64+5", ok + "Content-Length: 18446744073709551621\r\n\r\nhello", "9110 §8.6", refused + "Content-Length is no decimal number below 2^63.", false},
		{"length with an underscore", ok + "Content_Length: 5\r\n\r\nhello", "9112 §6.3", refused + `A field's name is Content-Length or Transfer-Encoding with "_".`, false},
		{"coding twice", ok + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "9112 §7", refused + "Transfer-Encoding is not exactly one chunked.", false},
		{"chunked not last", ok + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", "9112 §6.3", refused + "Transfer-Encoding is not exactly one chunked.", false},
		{"unknown coding", ok + "Transfer-Encoding: gzip\r\n\r\n", "9112 §6.1", refused + "Transfer-Encoding names a coding other than chunked.", false},
		{"coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "9112 §6.1", refused + "An HTTP/1.0 message has Transfer-Encoding.", false},
		// The end too early.
		{"nothing", "", "9112 §8", refused + "EOF", true},
		{"half a status line", "HTTP/1.1 2", "9112 §8", refused + "unexpected EOF", true},
		{"half a head", ok + "Content-Le", "9112 §8", refused + "unexpected EOF", true},
		{"half a body", ok + five + "\r\nhel", "9112 §8", "200 hel, then cut", true},
		{"half a chunk", chunked + "5\r\nhel", "9112 §8", "200 hel, then cut", true},
		{"no last chunk", chunked + "5\r\nhello\r\n", "9112 §8", "200 hello, then cut", true},
		{"half a last chunk", chunked + "5\r\nhello\r\n0\r\n", "9112 §8", "200 hello, then cut", true},
		{"half a trailer section", chunked + "5\r\nhello\r\n0\r\nX: 1\r\n", "9112 §8", "200 hello, then cut", true},
		{"end by close", ok + "\r\nhello", "9112 §6.3", "200 hello", true},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n" + five + "\r\nhello", "9112 §9.3", "200 hello", false},
		{"close", ok + "Connection: foo, Close\r\n" + five + "\r\nhello", "9112 §9.6", "200 hello", false},
		// Chunks.
		{"size without digits", chunked + "\r\nhello\r\n0\r\n\r\n", "9112 §7.1", "200 , then cut", false},
		{"size that is no number", chunked + "5g\r\nhello\r\n0\r\n\r\n", "9112 §7.1", "200 , then cut", false},
		{"size with 0x", chunked + "0x5\r\nhello\r\n0\r\n\r\n", "9112 §7.1", "200 , then cut", false},
		{"size with a sign", chunked + "-1\r\nhello\r\n0\r\n\r\n", "9112 §7.1", "200 , then cut", false},
		{"size of 2^64", chunked + "10000000000000000\r\nhello\r\n0\r\n\r\n", "9112 §7.1", "200 , then cut", false},
		{"size of 2^63", chunked + "8000000000000000\r\nhello\r\n0\r\n\r\n", "9112 §7.1", "200 , then cut", false},
		{"size line ends with LF", chunked + "5\nhello\r\n0\r\n\r\n", "9112 §7.1", "200 , then cut", false},
		{"data longer than its size", chunked + "4\r\nhello\r\n0\r\n\r\n", "9112 §7.1", "200 hell, then cut", false},
		{"data shorter than its size", chunked + "6\r\nhello\r\n0\r\n\r\n", "9112 §7.1", "200 hello\r, then cut", false},
		{"huge extension", chunked + "5;" + strings.Repeat("x", 300) + "\r\nhello\r\n0\r\n\r\n", "9112 §7.1.1", "200 , then cut", false},
		{"folded trailer", chunked + "5\r\nhello\r\n0\r\nX: 1\r\n 2\r\n\r\n", "9112 §7.1.2", "200 hello, then cut", false},
		{"huge trailers", chunked + "5\r\nhello\r\n0\r\nX: " + strings.Repeat("x", 9000) + "\r\n\r\n", "9112 §7.1.2", "200 hello, then cut", false},
		// Something behind the response.
		{"a longer body", ok + five + "\r\nhello, world", "9112 §6.3", "200 hello", false},
		{"a second response", helloOK + helloOK, "9112 §9.2", "200 hello", false},
		{"a second response behind chunks", chunked + "5\r\nhello\r\n0\r\n\r\n" + helloOK, "9112 §9.2", "200 hello", false},
		{"a body of a 204", "HTTP/1.1 204 No Content\r\n\r\nhello", "9112 §6.3", "204 ", false},
		{"a length of a 204", "HTTP/1.1 204 No Content\r\n" + five + "\r\n", "9110 §8.6", "204 ", false},
		{"chunks of a 204", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "9112 §6.1", "204 ", false},
		{"a body of a 304", "HTTP/1.1 304 Not Modified\r\n" + five + "\r\nhello", "9112 §6.3", "304 ", false},
		{"a body of a 205", "HTTP/1.1 205 Reset Content\r\n" + five + "\r\nhello", "9110 §15.3.6", "205 ", false},
		{"a 205 without a length", "HTTP/1.1 205 Reset Content\r\n\r\n", "9110 §15.3.6", "205 ", false},
		// Informational responses.
		{"11 of them", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 11) + helloOK, "9110 §15.2", refused + "more than 10 informational responses", false},
		{"with a body", "HTTP/1.1 103 Early Hints\r\n" + five + "\r\nhello" + helloOK, "9112 §6.3", badStatus, false},
		{"with a length", "HTTP/1.1 103 Early Hints\r\n" + five + "\r\n" + helloOK, "9110 §8.6", "200 hello", false},
		{"with a coding", "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n" + helloOK, "9112 §6.1", "200 hello", false},
		{"that says close", "HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n" + helloOK, "9112 §9.6", "200 hello", false},
		{"a half one", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1", "9112 §8", refused + "unexpected EOF", true},
		{"101 that nobody asked for", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbytes", "9110 §15.2.2", refused + "switched to a protocol that was not asked for", false},
		// Size.
		{"a line of 300 KB", ok + "X: " + strings.Repeat("x", 300<<10) + "\r\n" + five + "\r\nhello", "9110 §5.4", refused + "the response's head is larger than 256 KiB", false},
		{"a line without an end", ok + strings.Repeat("x", 300<<10), "9110 §5.4", refused + "the response's head is larger than 256 KiB", false},
		{"300 announced trailers", chunked[:len(chunked)-2] + "Trailer: " + strings.Repeat("X,", 299) + "X\r\n\r\n0\r\n\r\n", "9110 §5.4", refused + "The head has more than 100 fields, or announces as many trailers.", false},
		{"101 fields", ok + strings.Repeat("X: 1\r\n", 101) + five + "\r\nhello", "9110 §5.4", refused + "The head has more than 100 fields, or announces as many trailers.", false},
	}
}

func TestUpstreamHostileResponses(t *testing.T) {
	if n := len(hostileResponses()); n < 30 {
		t.Errorf("%d rows", n)
	}
	for _, row := range hostileResponses() {
		for how, step := range map[string]int{"at once": 1 << 20, "in pieces": 3} {
			t.Run(row.name+" "+how, func(t *testing.T) { testHostile(t, row, step) })
		}
	}
}

// testHostile asks twice: what the first response left must not reach the second
// exchange.
func testHostile(t *testing.T, row hostileResponse, step int) {
	step = max(step, len(row.bytes)/100)
	sent := make(chan struct{})
	d := serveRaw(t, func(c *visit) {
		if c.n > 1 {
			answers(strings.Replace(helloOK, "hello", "fresh", 1))(c)
			return
		}
		c.head()
		for rest := row.bytes; len(rest) > 0; {
			n := min(step, len(rest))
			c.say(rest[:n])
			rest = rest[n:]
		}
		if row.closes {
			c.Close()
		}
		close(sent)
		c.untilClosed()
	})
	u := newUpstream(t, d)
	bounds := wide
	bounds.Timeout, bounds.Idle = longWait/2, longWait/2
	begun := time.Now()
	expect(t, "first ("+row.rfc+")", outcome(u, ask("POST", "/"), bounds), row.want)
	if time.Since(begun) > longWait/4 {
		t.Error("only a timeout ended it")
	}
	await(t, "end of the hostile response", sent)
	expect(t, "second", outcome(u, ask("POST", "/"), bounds), "200 fresh")
}
