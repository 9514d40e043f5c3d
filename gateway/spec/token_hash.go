package spec

import (
	"errors"
	"regexp"
	"strings"
)

// TokenHash names a token without giving it away: its SHA-256, as printf %s TOKEN |
// sha256sum prints it.
type TokenHash string

const tokenHashPattern = `^[0-9a-fA-F]{64}$`

var tokenHashSyntax = regexp.MustCompile(tokenHashPattern)

// UnmarshalText reads 64 hexadecimal digits, and folds them to lower case.
func (h *TokenHash) UnmarshalText(text []byte) error {
	if !tokenHashSyntax.Match(text) {
		return errors.New("must be the SHA-256 of the token in 64 hexadecimal digits, not the token: printf %s TOKEN | sha256sum")
	}
	*h = TokenHash(strings.ToLower(string(text)))
	return nil
}

func (TokenHash) pattern() string { return tokenHashPattern }
