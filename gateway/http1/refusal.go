package http1

// Bounds of a message's head and framing, in bytes unless they say otherwise.
const (
	// MaxRequestLine bounds a request line. RFC 9112 §3 recommends at least 8,000.
	MaxRequestLine = 8 << 10
	// MaxHead bounds a head: its first line, all fields and the empty line.
	MaxHead = 64 << 10
	// MaxFields bounds the number of field lines of a head, of the trailers that
	// it announces, and of a trailer section.
	MaxFields = 100
	// MaxChunkLine bounds what may follow a chunk's size on its line: extensions,
	// which mean nothing here, are not forwarded.
	MaxChunkLine = 256
	// MaxTrailers bounds a trailer section.
	MaxTrailers = 8 << 10
	// maxMethod bounds a method; the longest registered one has 17 bytes.
	maxMethod = 32
)

// Refusal is why a message is not taken. On a connection where one occurred,
// nobody knows where the next message begins: it must be closed.
type Refusal struct {
	// Status is what a client is due for its request. A refused response is
	// always due 502.
	Status int
	// Code is a stable word in snake case.
	Code string
	// Detail is a sentence for a person.
	Detail string
}

func (r *Refusal) Error() string { return r.Detail }

func bad(code, detail string) *Refusal { return &Refusal{Status: 400, Code: code, Detail: detail} }

// The refusals. Each is one value, so that refusing costs nothing.
var (
	// RFC 9112 §2.2: a recipient MAY take a lone LF for a line's end, and others
	// don't; a bare CR is invalid.
	errBareLF = bad("bare_lf", "A line ends with LF alone; it must end with CRLF.")
	errBareCR = bad("bare_cr", "A CR is not followed by LF.")
	// RFC 9110 §5.5: CR, LF and NUL in a value are dangerous, other controls invalid.
	errControl = bad("control_in_field", "A field's value has a control byte.")
	// RFC 9112 §5.2: a server MUST refuse a folded line or unfold it. §2.2:
	// whitespace before the first field likewise.
	errFold = bad("folded_line", "A field line begins with whitespace.")
	// RFC 9112 §5.1: whitespace between name and colon MUST be refused.
	errSpaceBeforeColon = bad("space_before_colon", "Whitespace stands between a field's name and its colon.")
	// RFC 9110 §5.1: a name is a token.
	errFieldName = bad("bad_field_name", "A field line has no name that is a token followed by a colon.")
	// RFC 9110 §5.4.
	errHeadSize  = &Refusal{431, "head_too_large", "The head is larger than 64 KiB."}
	errHeadCount = &Refusal{431, "too_many_fields", "The head has more than 100 fields, or announces as many trailers."}

	// RFC 9112 §3: method SP request-target SP HTTP-version, with single spaces.
	errRequestLine = bad("bad_request_line", "The request line is not a method, a target and a version with one space between.")
	// RFC 9110 §9.1: a method is a token.
	errMethod = bad("bad_method", "The method is no token.")
	// RFC 9112 §3: a method longer than any that is implemented.
	errMethodSize = &Refusal{501, "method_too_long", "The method is longer than 32 bytes."}
	// RFC 9110 §9.3.6: CONNECT asks for a tunnel, which a gateway doesn't open.
	errConnect = &Refusal{501, "method_not_supported", "The gateway opens no tunnels."}
	// RFC 9112 §3, RFC 9110 §15.5.15.
	errLineSize = &Refusal{414, "target_too_long", "The request line is longer than 8 KiB."}
	// RFC 9112 §3.2: no whitespace; RFC 3986 §2: nothing outside of ASCII.
	errTarget = bad("bad_target", `The target has a byte that no target has, as a space, "#" or one outside of ASCII.`)
	// RFC 9112 §3.2: origin-form, absolute-form, or asterisk-form with OPTIONS (§3.2.4).
	errTargetForm = bad("bad_target_form", `The target is no path, no http URI, and no "*" with OPTIONS.`)
	// RFC 9110 §2.5, §15.6.6.
	errVersion = &Refusal{505, "version_not_supported", "The version is neither HTTP/1.0 nor HTTP/1.1."}

	// RFC 9112 §3.2: exactly one Host in HTTP/1.1, and a valid one.
	errNoHost    = bad("no_host", "An HTTP/1.1 request has no Host.")
	errManyHosts = bad("many_hosts", "The request has more than one Host.")
	errHost      = bad("bad_host", "The host is no name or address with an optional port.")
	// RFC 9112 §3.2.2: the authority of an absolute-form target replaces Host;
	// one that differs is how a cache or a filter is led astray.
	errHostDiffers = bad("host_differs", "Host differs from the target's authority.")

	// RFC 9110 §8.6: 1*DIGIT. Lists and repeated lines of equal numbers MAY be
	// refused, and are.
	errLength      = bad("bad_content_length", "Content-Length is no decimal number below 2^63.")
	errManyLengths = bad("many_content_lengths", "The message has more than one Content-Length.")
	// RFC 9112 §6.3 item 3: smuggling or splitting.
	errLengthAndCoding = bad("length_and_coding", "The message has Content-Length and Transfer-Encoding.")
	// RFC 9112 §6.3 item 4, §6.1: chunked exactly once, and last.
	errCoding = bad("bad_transfer_encoding", "Transfer-Encoding is not exactly one chunked.")
	// RFC 9112 §6.1: a coding that is not understood.
	errUnknownCoding = &Refusal{501, "coding_not_supported", "Transfer-Encoding names a coding other than chunked."}
	// RFC 9112 §6.1: in HTTP/1.0 the framing is faulty.
	errCodingIn10 = bad("coding_in_http10", "An HTTP/1.0 message has Transfer-Encoding.")
	// RFC 3875 §4.1.18: a CGI-like backend reads "_" as "-".
	errTwin = bad("underscore_framing", `A field's name is Content-Length or Transfer-Encoding with "_".`)
	// RFC 9110 §10.1.1.
	errExpect = &Refusal{417, "expectation_failed", "The expectation is not 100-continue."}

	// RFC 9112 §4.
	errStatusLine = bad("bad_status_line", "The status line is not a version, a status from 100 to 599 and a phrase.")

	// RFC 9112 §7.1.
	errChunkSize = bad("bad_chunk_size", "A chunk's size is no hexadecimal number of at most 16 digits below 2^63.")
	errChunkLine = bad("bad_chunk_extension", "What follows a chunk's size is malformed or longer than 256 bytes.")
	errChunkEnd  = bad("bad_chunk_end", "A chunk's data is not followed by CRLF.")
	errTrailers  = &Refusal{431, "trailers_too_large", "The trailer section is larger than 8 KiB."}
)
