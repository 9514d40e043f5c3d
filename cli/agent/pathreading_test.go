package main

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// readings are the ways in which servers read a path. The most forgiving decodes every escape, takes "\" for "/", cuts path
// parameters off and removes empty and dot segments.
var readings = map[string]func(path string) []string{
	"decodes, then cuts": func(path string) []string { return resolve(cutParameters(slashed(decodeAll(path)))) },
	"cuts, then decodes": func(path string) []string { return resolve(slashed(decodeAll(cutParameters(path)))) },
	"decodes":            func(path string) []string { return resolve(slashed(decodeAll(path))) },
	"decodes but slashes": func(path string) []string {
		return resolve(unescape(path, func(c byte) bool { return c != '/' && c != '\\' }))
	},
	"decodes but slashes, then cuts": func(path string) []string {
		return resolve(cutParameters(unescape(path, func(c byte) bool { return c != '/' && c != '\\' })))
	},
}

func decodeAll(path string) string { return unescape(path, func(byte) bool { return true }) }

func slashed(path string) string { return strings.ReplaceAll(path, `\`, "/") }

func cutParameters(path string) string {
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}

// resolve removes empty and dot segments.
func resolve(path string) (kept []string) {
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, segment)
		}
	}
	return kept
}

// matched are the segments that a target stands for: its path in the canonical form.
func matched(target string) []string {
	if _, rest, _ := strings.Cut(target, "://"); !strings.HasPrefix(target, "/") {
		target = rest[min(len(rest), strings.IndexAny(rest+"/", "/?")):]
	}
	path, _, _ := strings.Cut(target, "?")
	return resolve(normal(path))
}

// segments are those of a path as they stand, where the first and last slash make none.
func segments(path string) []string {
	path = strings.TrimSuffix(strings.TrimPrefix(normal(path), "/"), "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// normal decodes the escapes that say nothing (RFC 3986 §2.3), and spells the others in upper case.
func normal(path string) string {
	plain := func(c byte) bool {
		return strings.IndexByte("-._~", c) >= 0 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
	}
	var b strings.Builder
	for i, part := range strings.Split(unescape(path, plain), "%") {
		if i > 0 && len(part) >= 2 {
			part = "%" + strings.ToUpper(part[:2]) + part[2:]
		}
		b.WriteString(part)
	}
	return escapeBytes(b.String())
}

// escapeBytes spells bytes that no path may hold.
func escapeBytes(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c >= 0x80 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape decodes the escapes of the bytes that want says, once. What is no escape stays as it is.
func unescape(path string, want func(byte) bool) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			if c, err := hex.DecodeString(path[i+1 : i+3]); err == nil && want(c[0]) {
				b.WriteByte(c[0])
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}
