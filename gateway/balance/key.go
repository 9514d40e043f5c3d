package balance

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// key is what the hash looks at. A request has none when that is absent or empty,
// since an empty value stands for nobody in particular.
type key struct {
	read func(x *exchange.Request, name string) (sum uint64, ok bool)
	name string
}

var keys = map[string]func(x *exchange.Request, name string) (uint64, bool){
	"":       byClient,
	"ip":     byClient,
	"path":   byPath,
	"header": byHeader,
	"cookie": byCookie,
	"query":  byParameter,
}

func newKey(hashOn spec.HashOn) key {
	what, name, _ := strings.Cut(string(hashOn), ":")
	read, known := keys[what]
	if !known {
		panic(fmt.Sprintf("balance: no hash on %q", hashOn))
	}
	return key{read, name}
}

func (k *key) of(x *exchange.Request) (sum uint64, ok bool) { return k.read(x, k.name) }

// byClient takes an IPv4 address in IPv6 form for the same client.
func byClient(x *exchange.Request, _ string) (uint64, bool) {
	if !x.Client.IsValid() {
		return 0, false
	}
	address := x.Client.As16()
	return xxhash.Sum64(address[:]), true
}

func byPath(x *exchange.Request, _ string) (uint64, bool) {
	path, _, _ := bytes.Cut(x.Target, []byte("?"))
	return sumOf(path)
}

// byHeader sums up the field's lines as one, which means the same (RFC 9110
// §5.2).
func byHeader(x *exchange.Request, name string) (uint64, bool) {
	var sum xxhash.Digest
	sum.Reset()
	lines, size := 0, 0
	for value := range x.Fields.Values(name) {
		if lines > 0 {
			sum.WriteString(", ")
		}
		sum.Write(value)
		lines++
		size += len(value)
	}
	return sum.Sum64(), size > 0
}

func byCookie(x *exchange.Request, name string) (uint64, bool) { return sumOf(Cookie(x.Fields, name)) }

func byParameter(x *exchange.Request, name string) (uint64, bool) {
	return sumOf(parameter(x.Target, name))
}

func sumOf(value []byte) (uint64, bool) { return xxhash.Sum64(value), len(value) > 0 }

// Cookie is the value of the first cookie of that name, nil if there is none.
// Quotes are part of it (RFC 6265 §4.2.1, §5.4). HTTP/2 may send each in a field of its
// own (RFC 9113 §8.2.3).
func Cookie(fields exchange.Fields, name string) []byte {
	for rest := range fields.Values("Cookie") {
		for more := true; more; {
			var pair []byte
			pair, rest, more = bytes.Cut(rest, []byte(";"))
			have, value, is := bytes.Cut(bytes.Trim(pair, " \t"), []byte("="))
			if is && string(have) == name {
				return value
			}
		}
	}
	return nil
}

// parameter is the value as sent of the first parameter of that name in the query.
// A query that servers read in different ways has none.
func parameter(target []byte, name string) []byte {
	mark := bytes.IndexByte(target, '?')
	if mark < 0 {
		return nil
	}
	query, err := exchange.ParseQuery(target[mark:])
	if err != nil {
		return nil
	}
	for p := range query.All() {
		if p.Named(name) {
			return p.Value
		}
	}
	return nil
}
