package spec

import (
	"encoding/hex"
	"errors"
	"strings"
)

// TLSRef refers to a secret or a certificate in the KV.
type TLSRef string

// UnmarshalText reads secret:NAME or certs:NAME.
func (t *TLSRef) UnmarshalText(text []byte) error {
	where, name, _ := strings.Cut(string(text), ":")
	if where != "secret" && where != "certs" || !idSyntax.MatchString(name) {
		return errors.New("must be secret:NAME or certs:NAME")
	}
	*t = TLSRef(text)
	return nil
}

func (TLSRef) pattern() string { return `^(secret|certs):.+$` }

// Pin is the SHA-256 of a certificate in lower-case hex.
type Pin string

// UnmarshalText reads 64 hex digits, with or without colons between them.
func (p *Pin) UnmarshalText(text []byte) error {
	digits := strings.ToLower(strings.ReplaceAll(string(text), ":", ""))
	if sum, err := hex.DecodeString(digits); err != nil || len(sum) != 32 {
		return errors.New("must be the SHA-256 of a certificate, 64 hex digits")
	}
	*p = Pin(digits)
	return nil
}

func (Pin) pattern() string { return `^[0-9a-f]{64}$` }
