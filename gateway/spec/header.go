package spec

import (
	"errors"
	"fmt"
	"mime"
	"regexp"
	"slices"
	"strings"
)

// tokenPattern is the token of RFC 9110 §5.6.2.
const tokenPattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

var tokenSyntax = regexp.MustCompile(tokenPattern)

// HeaderName is the name of a header or cookie.
type HeaderName string

// UnmarshalText reads a name.
func (h *HeaderName) UnmarshalText(text []byte) error {
	if !tokenSyntax.Match(text) {
		return errors.New("is not a name of letters, digits and - such as X-Request-Id")
	}
	*h = HeaderName(text)
	return nil
}

func (HeaderName) pattern() string { return tokenPattern }

// HeaderValue is the value of a header.
type HeaderValue string

// UnmarshalText reads a value.
func (h *HeaderValue) UnmarshalText(text []byte) error {
	s := string(text)
	if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
		return fmt.Errorf("must not hold the control character %q", s[i])
	}
	if s != strings.Trim(s, " \t") {
		return errors.New("must not begin or end with a space")
	}
	*h = HeaderValue(s)
	return nil
}

func (HeaderValue) pattern() string { return `^[^\x00-\x08\x0a-\x1f\x7f]*$` }

// MediaType is a media type with or without parameters, as text/html;
// charset=utf-8, or a range of them, as text/*.
type MediaType string

// UnmarshalText reads a media type.
func (m *MediaType) UnmarshalText(text []byte) error {
	if err := new(HeaderValue).UnmarshalText(text); err != nil { // mime trims line breaks
		return err
	}
	if _, _, err := mime.ParseMediaType(string(text)); err != nil || !strings.Contains(string(text), "/") {
		return errors.New("is not a media type such as text/html")
	}
	*m = MediaType(text)
	return nil
}

func (MediaType) pattern() string { return `^[^/]+/[^/]+` }

// hopHeaders are about one hop or frame the message on it (RFC 9110 §7.6.1, with
// the non-standard ones that are still sent): they neither reach a route nor
// pass it. The host is one more, see isHost.
var hopHeaders = []string{
	"connection", "content-length", "expect", "http2-settings", "keep-alive", "proxy-authenticate",
	"proxy-authentication-info", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

func isHopHeader(name string) bool { return slices.Contains(hopHeaders, strings.ToLower(name)) }

// Method is a request method.
type Method string

// UnmarshalText reads a method. Methods are case-sensitive, and a lower-case
// one is most likely a slip, so it is refused instead of never matching.
func (m *Method) UnmarshalText(text []byte) error {
	switch s := string(text); {
	case s == "*":
		return errors.New("leave the list out for any method")
	case !tokenSyntax.MatchString(s):
		return errors.New("is not a request method")
	case s != strings.ToUpper(s):
		return fmt.Errorf("methods are in upper case: write %s", strings.ToUpper(s))
	default:
		*m = Method(s)
		return nil
	}
}

func (Method) pattern() string { return "^[!#$%&'*+.^_`|~0-9A-Z-]+$" }
