// Package hostile is a corpus of requests that servers are known to read in
// different ways. Tests send them; nothing else imports it.
package hostile

import "strings"

// Request is a request that must not be served as it looks to some reader.
type Request struct {
	Name, Raw string
	// RFC is the paragraph that it breaks; Want is the status due and our code.
	RFC, Want string
	// Reaches tells whether a handler sees a request: only where the fault is
	// behind the head.
	Reaches bool
}

// Host is the Host field of the requests that have a good one.
const Host = "Host: a.example\r\n"

// Requests are requests of one fault each. The code is among them so that a
// request is refused for its own fault, not for another one.
func Requests() []Request {
	const host = Host
	get := func(rest string) string { return "GET / HTTP/1.1\r\n" + host + rest }
	post := func(rest string) string { return "POST / HTTP/1.1\r\n" + host + rest }
	const chunked = "Transfer-Encoding: chunked\r\n"
	body := func(chunks string) string { return post(chunked + "\r\n" + chunks) }
	long := func(n int) string { return strings.Repeat("a", n) }
	return []Request{
		// Lines.
		{"bare LF behind the request line", "GET / HTTP/1.1\n" + host + "\r\n", "9112 §2.2", "400 bare_lf", false},
		{"bare LF behind a field", get("X: 1\nY: 2\r\n\r\n"), "9112 §2.2", "400 bare_lf", false},
		{"bare LF for the empty line", get("X: 1\r\n\n"), "9112 §2.2", "400 bare_lf", false},
		{"bare LF everywhere", "GET / HTTP/1.1\nHost: a\n\n", "9112 §2.2", "400 bare_lf", false},
		{"bare LF inside a name", get("X\nY: 1\r\n\r\n"), "9112 §2.2", "400 bare_lf", false},
		{"bare CR inside a value", get("X: 1\rY: 2\r\n\r\n"), "9112 §2.2", "400 bare_cr", false},
		{"bare CR for a line's end", get("X: 1\r\r\n\r\n"), "9112 §2.2", "400 bare_cr", false},
		{"bare CR at a line's begin", get("\rX: 1\r\n\r\n"), "9112 §2.2", "400 bare_cr", false},
		{"CR CR LF as empty line", get("\r\r\n"), "9112 §2.2", "400 bare_cr", false},
		{"bare CR behind the version", "GET / HTTP/1.1\r" + host + "\r\n", "9112 §2.2", "400 bare_cr", false},
		{"NUL in a value", get("X: a\x00b\r\n\r\n"), "9110 §5.5", "400 control_in_field", false},
		{"NUL in a name", get("X\x00: a\r\n\r\n"), "9110 §5.1", "400 bad_field_name", false},
		{"escape in a value", get("X: \x1b[0m\r\n\r\n"), "9110 §5.5", "400 control_in_field", false},
		{"DEL in a value", get("X: \x7f\r\n\r\n"), "9110 §5.5", "400 control_in_field", false},
		{"vertical tab before a value", get("Content-Length:\x0b5\r\n\r\n"), "9110 §5.5", "400 control_in_field", false},
		{"folded line", get("X: 1\r\n 2\r\n\r\n"), "9112 §5.2", "400 folded_line", false},
		{"line folded with a tab", get("X: 1\r\n\tY: 2\r\n\r\n"), "9112 §5.2", "400 folded_line", false},
		{"folded Content-Length", post("Content-Length: 5\r\n 0\r\n\r\nhello"), "9112 §5.2", "400 folded_line", false},
		{"folded Transfer-Encoding", post("Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"), "9112 §5.2", "400 folded_line", false},
		{"whitespace before the first field", "GET / HTTP/1.1\r\n " + host + "\r\n", "9112 §2.2", "400 folded_line", false},
		{"space before a colon", get("X : 1\r\n\r\n"), "9112 §5.1", "400 space_before_colon", false},
		{"space in Content-Length's name", post("Content-Length : 5\r\n\r\nhello"), "9112 §5.1", "400 space_before_colon", false},
		{"tab before Transfer-Encoding's colon", post("Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"), "9112 §5.1", "400 space_before_colon", false},
		{"no colon", get("XY\r\n\r\n"), "9112 §5", "400 bad_field_name", false},
		{"empty name", get(": 1\r\n\r\n"), "9110 §5.1", "400 bad_field_name", false},
		{"name with a slash", get("a/b: 1\r\n\r\n"), "9110 §5.1", "400 bad_field_name", false},
		{"name in UTF-8", get("h\u00f6st: 1\r\n\r\n"), "9110 §5.1", "400 bad_field_name", false},
		{"name in quotes", get("\"X\": 1\r\n\r\n"), "9110 §5.1", "400 bad_field_name", false},

		// The request line.
		{"HTTP/0.9", "GET /\r\n", "9112 §3", "400 bad_request_line", false},
		{"HTTP/0.9 with a space", "GET / \r\n", "9112 §3", "400 bad_request_line", false},
		{"no target", "GET  HTTP/1.1\r\n" + host + "\r\n", "9112 §3", "400 bad_request_line", false},
		{"two spaces before the version", "GET /  HTTP/1.1\r\n" + host + "\r\n", "9112 §3", "400 bad_request_line", false},
		{"space behind the version", "GET / HTTP/1.1 \r\n" + host + "\r\n", "9112 §3", "400 bad_request_line", false},
		{"space in the target", "GET /a b HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2", "400 bad_request_line", false},
		{"tabs for spaces", "GET\t/\tHTTP/1.1\r\n" + host + "\r\n", "9112 §3", "400 bad_method", false},
		{"space first", " GET / HTTP/1.1\r\n" + host + "\r\n", "9112 §3", "400 bad_request_line", false},
		{"two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\n" + host + "\r\n", "9112 §2.2", "400 bad_request_line", false},
		{"method with a colon", "GE:T / HTTP/1.1\r\n" + host + "\r\n", "9110 §9.1", "400 bad_method", false},
		{"TLS on a plain port", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "9112 §3", "400 bad_method", false},
		{"method without an end", long(100), "9112 §3", "501 method_too_long", false},
		{"fragment", "GET /a#b HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2", "400 bad_target", false},
		{"target in UTF-8", "GET /\u00e9 HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2", "400 bad_target", false},
		{"NUL in the target", "GET /\x00 HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2", "400 bad_target", false},
		{"tab in the target", "GET /a\tb HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2", "400 bad_target", false},
		{"relative target", "GET a HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2", "400 bad_target_form", false},
		{"query alone", "GET ?a HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2.1", "400 bad_target_form", false},
		{"asterisk with GET", "GET * HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2.4", "400 bad_target_form", false},
		{"authority with GET", "GET a.example:80 HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2.3", "400 bad_target_form", false},
		{"another scheme", "GET ftp://a.example/ HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2.2", "400 bad_target_form", false},
		{"file scheme", "GET file:///etc/passwd HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2.2", "400 bad_target_form", false},
		{"CONNECT", "CONNECT a.example:443 HTTP/1.1\r\n" + host + "\r\n", "9110 §9.3.6", "501 method_not_supported", false},
		{"line above 8 KiB", "GET /" + long(9000) + " HTTP/1.1\r\n" + host + "\r\n", "9112 §3", "414 target_too_long", false},
		{"no name of the protocol", "GET / FTP/1.1\r\n" + host + "\r\n", "9112 §2.3", "400 bad_request_line", false},
		{"protocol in lower case", "GET / http/1.1\r\n" + host + "\r\n", "9112 §2.3", "400 bad_request_line", false},
		{"version 1", "GET / HTTP/1\r\n" + host + "\r\n", "9112 §2.3", "400 bad_request_line", false},
		{"version with a space", "GET / HTTP/1 1\r\n" + host + "\r\n", "9112 §2.3", "400 bad_request_line", false},
		{"version 1.10", "GET / HTTP/1.10\r\n" + host + "\r\n", "9112 §2.3", "400 bad_request_line", false},
		{"version 01.1", "GET / HTTP/01.1\r\n" + host + "\r\n", "9112 §2.3", "400 bad_request_line", false},
		{"version 1.2", "GET / HTTP/1.2\r\n" + host + "\r\n", "9110 §2.5", "505 version_not_supported", false},
		{"version 0.9", "GET / HTTP/0.9\r\n" + host + "\r\n", "9110 §2.5", "505 version_not_supported", false},
		{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "9113 §3.4", "505 version_not_supported", false},

		// Host.
		{"no Host", "GET / HTTP/1.1\r\nX: 1\r\n\r\n", "9112 §3.2", "400 no_host", false},
		{"two Hosts", get("Host: b.example\r\n\r\n"), "9112 §3.2", "400 many_hosts", false},
		{"the same Host twice", get(host + "\r\n"), "9112 §3.2", "400 many_hosts", false},
		{"two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\n" + host + host + "\r\n", "9112 §3.2", "400 many_hosts", false},
		{"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "9110 §4.2.1", "400 bad_host", false},
		{"space in Host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "9112 §3.2", "400 bad_host", false},
		{"list in Host", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "9112 §3.2", "400 bad_host", false},
		{"user in Host", "GET / HTTP/1.1\r\nHost: u@a.example\r\n\r\n", "9110 §4.2.4", "400 bad_host", false},
		{"path in Host", "GET / HTTP/1.1\r\nHost: a.example/b\r\n\r\n", "9112 §3.2", "400 bad_host", false},
		{"URI in Host", "GET / HTTP/1.1\r\nHost: http://a.example\r\n\r\n", "9112 §3.2", "400 bad_host", false},
		{"bad port", "GET / HTTP/1.1\r\nHost: a.example:8o\r\n\r\n", "9112 §3.2", "400 bad_host", false},
		{"port too large", "GET / HTTP/1.1\r\nHost: a.example:65536\r\n\r\n", "9112 §3.2", "400 bad_host", false},
		{"empty port", "GET / HTTP/1.1\r\nHost: a.example:\r\n\r\n", "9112 §3.2", "400 bad_host", false},
		{"two ports", "GET / HTTP/1.1\r\nHost: a.example:80:81\r\n\r\n", "9112 §3.2", "400 bad_host", false},
		{"bare IPv6", "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", "3986 §3.2.2", "400 bad_host", false},
		{"broken IPv6", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", "3986 §3.2.2", "400 bad_host", false},
		{"IPv4 in brackets", "GET / HTTP/1.1\r\nHost: [127.0.0.1]\r\n\r\n", "3986 §3.2.2", "400 bad_host", false},
		{"zone in Host", "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n", "6874 §4", "400 bad_host", false},
		{"text behind IPv6", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", "3986 §3.2.2", "400 bad_host", false},
		{"escape in Host", "GET / HTTP/1.1\r\nHost: a%2eexample\r\n\r\n", "9112 §3.2", "400 bad_host", false},
		{"absolute-form with another Host", "GET http://b.example/ HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2.2", "400 host_differs", false},
		{"absolute-form with another port", "GET http://a.example:81/ HTTP/1.1\r\n" + host + "\r\n", "9112 §3.2.2", "400 host_differs", false},
		{"absolute-form without Host", "GET http://a.example/ HTTP/1.1\r\n\r\n", "9112 §3.2", "400 no_host", false},
		{"absolute-form with a user", "GET http://u:p@a.example/ HTTP/1.1\r\n" + host + "\r\n", "9110 §4.2.4", "400 bad_host", false},
		{"absolute-form without a host", "GET http:///a HTTP/1.1\r\n" + host + "\r\n", "9110 §4.2.1", "400 bad_host", false},

		// Framing.
		{"length and chunks", post("Content-Length: 5\r\n" + chunked + "\r\n0\r\n\r\n"), "9112 §6.3", "400 length_and_coding", false},
		{"chunks and length", post(chunked + "Content-Length: 5\r\n\r\n0\r\n\r\n"), "9112 §6.3", "400 length_and_coding", false},
		{"length and an unknown coding", post("Content-Length: 5\r\nTransfer-Encoding: x\r\n\r\nhello"), "9112 §6.3", "400 length_and_coding", false},
		{"length twice, different", post("Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), "9112 §6.3", "400 many_content_lengths", false},
		{"length twice, equal", post("Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), "9110 §8.6", "400 many_content_lengths", false},
		{"list of equal lengths", post("Content-Length: 5, 5\r\n\r\nhello"), "9110 §8.6", "400 bad_content_length", false},
		{"signed length", post("Content-Length: +5\r\n\r\nhello"), "9110 §8.6", "400 bad_content_length", false},
		{"negative length", post("Content-Length: -5\r\n\r\nhello"), "9110 §8.6", "400 bad_content_length", false},
		{"hexadecimal length", post("Content-Length: 0x5\r\n\r\nhello"), "9110 §8.6", "400 bad_content_length", false},
		{"fractional length", post("Content-Length: 5.0\r\n\r\nhello"), "9110 §8.6", "400 bad_content_length", false},
		{"length with an underscore", post("Content-Length: 1_0\r\n\r\nhello"), "9110 §8.6", "400 bad_content_length", false},
		{"length with a space", post("Content-Length: 1 0\r\n\r\nhello"), "9110 §8.6", "400 bad_content_length", false},
		{"empty length", post("Content-Length:\r\n\r\nhello"), "9110 §8.6", "400 bad_content_length", false},
		{"length in other digits", post("Content-Length: \u0665\r\n\r\nhello"), "9110 §8.6", "400 bad_content_length", false},
		{"length of 2^63", post("Content-Length: 9223372036854775808\r\n\r\n"), "9110 §8.6", "400 bad_content_length", false},
		{"length of 2^64+1", post("Content-Length: 18446744073709551617\r\n\r\n"), "9110 §8.6", "400 bad_content_length", false},
		{"Content_Length", post("Content_Length: 5\r\n\r\nhello"), "3875 §4.1.18", "400 underscore_framing", false},
		{"Transfer_Encoding", post("Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n"), "3875 §4.1.18", "400 underscore_framing", false},
		{"chunked twice", post("Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), "9112 §6.1", "400 bad_transfer_encoding", false},
		{"chunked in two lines", post(chunked + chunked + "\r\n0\r\n\r\n"), "9112 §6.1", "400 bad_transfer_encoding", false},
		{"chunked and identity in two lines", post(chunked + "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"), "9112 §6.1", "400 bad_transfer_encoding", false},
		{"chunked not last", post("Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"), "9112 §6.3", "400 bad_transfer_encoding", false},
		{"chunked and nothing", post("Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n"), "9112 §6.1", "400 bad_transfer_encoding", false},
		{"no coding", post("Transfer-Encoding:\r\n\r\n0\r\n\r\n"), "9112 §6.1", "400 bad_transfer_encoding", false},
		{"gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), "9112 §6.1", "501 coding_not_supported", false},
		{"identity", post("Transfer-Encoding: identity\r\n\r\n"), "9112 §6.1", "501 coding_not_supported", false},
		{"xchunked", post("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), "9112 §6.1", "501 coding_not_supported", false},
		{"quoted chunked", post("Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"), "9112 §6.1", "501 coding_not_supported", false},
		{"chunked with a parameter", post("Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"), "9112 §7", "501 coding_not_supported", false},
		{"chunked in HTTP/1.0", "POST / HTTP/1.0\r\n" + host + chunked + "\r\n0\r\n\r\n", "9112 §6.1", "400 coding_in_http10", false},
		{"unknown expectation", post("Expect: 200-ok\r\nContent-Length: 0\r\n\r\n"), "9110 §10.1.1", "417 expectation_failed", false},
		{"two expectations", post("Expect: 100-continue, x\r\nContent-Length: 1\r\n\r\na"), "9110 §10.1.1", "417 expectation_failed", false},

		// Sizes.
		{"300 fields", get(strings.Repeat("X: 1\r\n", 300) + "\r\n"), "6585 §5", "431 too_many_fields", false},
		{"300 announced trailers", post(chunked + "Trailer: " + strings.Repeat("X,", 299) + "X\r\n\r\n0\r\n\r\n"), "6585 §5", "431 too_many_fields", false},
		{"trailers announced in many lines", get(strings.Repeat("Trailer: X,Y,Z\r\n", 40) + "\r\n"), "6585 §5", "431 too_many_fields", false},
		{"head above 64 KiB", get("X: " + long(70<<10) + "\r\n\r\n"), "6585 §5", "431 head_too_large", false},

		// Chunks; the head is fine, so the handler is asked and fails to read.
		{"chunk without a size", body("\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"chunk size with 0x", body("0x5\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"signed chunk size", body("+5\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"negative chunk size", body("-5\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"space before a chunk size", body(" 5\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"space behind a chunk size", body("5 \r\nhello\r\n0\r\n\r\n"), "9112 §7.1.1", "400 bad_chunk_size", true},
		{"chunk size with an underscore", body("1_0\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"chunk size above 2^63", body("8000000000000000\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"chunk size that wraps", body("10000000000000005\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"chunk size of 17 digits", body("00000000000000005\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"NUL in a chunk size", body("5\x00\r\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_size", true},
		{"bare LF behind a chunk size", body("5\nhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bare_lf", true},
		{"bare CR behind a chunk size", body("5\rhello\r\n0\r\n\r\n"), "9112 §7.1", "400 bare_cr", true},
		{"bare LF behind an extension", body("5;a\nhello\r\n0\r\n\r\n"), "9112 §7.1.1", "400 bare_lf", true},
		{"bare CR in an extension", body("5;a\rb\r\nhello\r\n0\r\n\r\n"), "9112 §7.1.1", "400 bare_cr", true},
		{"control in an extension", body("5;a=\x01\r\nhello\r\n0\r\n\r\n"), "9112 §7.1.1", "400 bad_chunk_extension", true},
		{"extension above 256 bytes", body("5;" + long(300) + "\r\nhello\r\n0\r\n\r\n"), "9112 §7.1.1", "400 bad_chunk_extension", true},
		{"chunk longer than its size", body("5\r\nhello!\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_end", true},
		{"chunk shorter than its size", body("5\r\nhell\r\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_end", true},
		{"bare LF behind chunk data", body("5\r\nhello\n0\r\n\r\n"), "9112 §7.1", "400 bad_chunk_end", true},
		{"bare LF behind the last chunk", body("0\n\r\n"), "9112 §7.1", "400 bare_lf", true},
		{"bare LF behind trailers", body("0\r\nX: 1\r\n\n"), "9112 §7.1.2", "400 bare_lf", true},
		{"bare CR behind trailers", body("0\r\n\rX: 1\r\n\r\n"), "9112 §7.1.2", "400 bare_cr", true},
		{"folded trailer", body("0\r\nX: 1\r\n 2\r\n\r\n"), "9112 §7.1.2", "400 folded_line", true},
		{"trailer without a colon", body("0\r\nX\r\n\r\n"), "9112 §7.1.2", "400 bad_field_name", true},
		{"trailers above 8 KiB", body("0\r\nX: " + long(9000) + "\r\n\r\n"), "6585 §5", "431 trailers_too_large", true},
		{"200 trailers", body("0\r\n" + strings.Repeat("X: 1\r\n", 200) + "\r\n"), "6585 §5", "431 trailers_too_large", true},
		{"many chunks of one byte with extensions", body(strings.Repeat("1;"+long(250)+"\r\na\r\n", 100) + "0\r\n\r\n"), "9112 §7.1.1", "400 bad_chunk_extension", true},
	}
}
