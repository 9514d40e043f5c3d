package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// wildStream is what a client of bad will may send: requests with framing that
// readers disagree on, behind each other, and then some bytes changed. mark stands
// in each of them.
func wildStream(r *rand.Rand, mark string) []byte {
	var b strings.Builder
	for range 1 + r.IntN(5) {
		b.WriteString(wildRequest(r, mark))
	}
	raw := []byte(b.String())
	for range r.IntN(4) * r.IntN(2) {
		raw = mutate(r, raw)
	}
	return raw
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// rarely gives one of the others one time in thirty.
func rarely(r *rand.Rand, usual string, others ...string) string {
	if r.IntN(30) > 0 {
		return usual
	}
	return pick(r, others...)
}

func wildRequest(r *rand.Rand, mark string) string {
	host := mark + ".example"
	body := pick(r, "", "hello", "0\r\n\r\n", "\r\n", "GET /smuggled-"+mark+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n", strings.Repeat(mark, r.IntN(3000)))
	framing, body := wildFraming(r, body)
	target := pick(r, "/", "/"+mark, "/a/../"+mark, "/"+mark+"?a=b", "http://"+host+"/x", "/%41/"+mark)
	target = rarely(r, target, "*", "/a b", "/#", "/\x7f", "http://other/", "/..", "/%2e%2e/", "//"+mark, "/a;b")
	line := pick(r, "GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS") + rarely(r, " ", "  ", "\t") + target + " " +
		rarely(r, "HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "http/1.1", "HTTP/1.1 ", "HTTP/01.1")
	fields := []string{
		"Host: " + host,
		rarely(r, "X-Mark: "+mark, "X-Mark : "+mark, " X-Mark: "+mark, "X\x00: "+mark, "X-Mark", ": "+mark),
		rarely(r, "Accept: */*", "X-Hasty: 1", "X-Hasty: 1", "Connection: close", "Connection: keep-alive, Content-Length", "Connection: Transfer-Encoding", "Expect: 100-continue",
			"Expect: "+mark, "TE: trailers, chunked", "Trailer: X-Sum", "Upgrade: websocket", "Connection: Upgrade", "Content_Length: 3", "Transfer_Encoding: chunked"),
	}
	fields = append(fields, framing...)
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	eol := rarely(r, "\r\n", "\n", "\r", "\r\r\n", "\r\n ")
	head := line + rarely(r, "\r\n", "\n") + strings.Join(fields, "\r\n") + eol + "\r\n"
	return rarely(r, "", "\r\n", "\r\n\r\n", "\n") + head + body
}

// wildFraming frames a body in one of the ways that there are, or in one that
// there is not.
func wildFraming(r *rand.Rand, body string) (fields []string, framed string) {
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d", n) }
	switch r.IntN(40) {
	default:
		return nil, ""
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
		return []string{length(len(body))}, body
	case 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24:
		return []string{"Transfer-Encoding: chunked"}, wildChunks(r, body)
	case 25:
		return []string{length(max(0, len(body)-r.IntN(5)))}, body
	case 26:
		return []string{length(len(body)), "Transfer-Encoding: chunked"}, wildChunks(r, body)
	case 27:
		return []string{length(len(body)), length(len(body) + r.IntN(2))}, body
	case 28:
		return []string{fmt.Sprintf(pick(r, "Content-Length: +%d", "Content-Length : %d", "Content-Length: %d, %[1]d", "Content-Length:\r\n %d", "Content-Length: 0x%x"), len(body))}, body
	case 29:
		return []string{"Transfer-Encoding" + pick(r, ": Chunked", ": chunked, identity", ": xchunked", ":\tchunked", " : chunked", ": chunked\r\nTransfer-Encoding: x", ": \x0bchunked")}, wildChunks(r, body)
	}
}

func wildChunks(r *rand.Rand, body string) string {
	var b strings.Builder
	for len(body) > 0 {
		n := 1 + r.IntN(len(body))
		fmt.Fprintf(&b, pick(r, "%x", "%X", "%04x"), n)
		b.WriteString(rarely(r, "", ";a=b", ";", ";a=\"\n\"", " ", ";"+strings.Repeat("x", 300)))
		b.WriteString(rarely(r, "\r\n", "\n", "\r"))
		b.WriteString(body[:n] + rarely(r, "\r\n", "\n", "", "x\r\n"))
		body = body[n:]
	}
	b.WriteString(rarely(r, "0\r\n", "0\n", "00;a\r\n", "-0\r\n"))
	b.WriteString(rarely(r, "", "X-Sum: 1\r\n", "Content-Length: 5\r\n", "X: 1\n", " X: 1\r\n"))
	return b.String() + rarely(r, "\r\n", "\n", "")
}

// mutate changes one place.
func mutate(r *rand.Rand, raw []byte) []byte {
	if len(raw) == 0 {
		return raw
	}
	at := r.IntN(len(raw))
	rest := append([]byte(nil), raw[at:]...)
	switch r.IntN(4) {
	case 0:
		raw[at] = byte(r.IntN(256))
		return raw
	case 1:
		return append(raw[:at], rest[min(len(rest), 1+r.IntN(3)):]...)
	case 2:
		return append(append(raw[:at], pick(r, "\r\n", "\n", "\r", " ", "0", "\x00", ":", "\r\n\r\n", ";")...), rest...)
	default:
		return append(append(raw[:at], rest[:min(len(rest), r.IntN(20))]...), rest...)
	}
}

// stream is what a client sends; the rest behind held bytes only when an answer has
// begun to come.
type stream struct {
	raw  []byte
	held int
}

// heldStreams have requests that are answered before their body has come. What it
// has must not be taken for the next request, by anybody.
func heldStreams(mark string) (streams []stream) {
	host := "Host: " + mark + ".example\r\n"
	smuggled := "GET /smuggled-" + mark + " HTTP/1.1\r\n" + host + "\r\n"
	for _, body := range []string{smuggled, strings.Repeat(smuggled, 20), strings.Repeat(mark, 30000)} {
		for _, head := range []string{
			"POST / HTTP/1.1\r\n" + host + hasty,
			"POST / HTTP/1.1\r\n" + host + hasty + "Expect: 100-continue\r\n",
			"PUT /.. HTTP/1.1\r\n" + host, // for which no backend is asked
			"OPTIONS * HTTP/1.1\r\n" + host,
		} {
			for _, framed := range []string{
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
				"Transfer-Encoding: chunked\r\n\r\n" + chunked(body) + "0\r\n\r\n",
			} {
				first, rest, _ := strings.Cut(framed, "\r\n\r\n")
				begin := head + first + "\r\n\r\n"
				all := []byte(begin + rest + "GET /behind-" + mark + " HTTP/1.1\r\n" + host + "\r\n")
				streams = append(streams, stream{all, len(begin)}, stream{all, len(begin) + len(rest)/2}, stream{all, len(all)})
			}
		}
	}
	return streams
}
