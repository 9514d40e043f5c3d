package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// TokenPrefix begins every join token. The digit is the version of its form.
	TokenPrefix = "gvt1."
	// TokenLife is how long a token admits nodes, unless it says otherwise.
	TokenLife = 24 * time.Hour
	// maxTokenSeeds and maxSeed bound the addresses in a token.
	maxTokenSeeds = 8
	maxSeed       = 255
)

// Secret is the part of a token that only its holder knows. It never shows in
// messages and logs.
type Secret [16]byte

// String hides the secret.
func (Secret) String() string { return "(hidden)" }

// GoString hides it from %#v too.
func (Secret) GoString() string { return "(hidden)" }

// LogValue hides it from loggers.
func (Secret) LogValue() slog.Value { return slog.StringValue("(hidden)") }

// hash is what a verifier keeps of a secret. The secret has 128 random bits, so
// that it needs no slow hash.
func (s Secret) hash() [sha256.Size]byte {
	return sha256.Sum256(append([]byte("grapevine join token "), s[:]...))
}

// id names the token's record, cluster/tokens/{id}. It is the front of the hash
// and tells nothing about the secret.
func (s Secret) id() string {
	hash := s.hash()
	return hex.EncodeToString(hash[:8])
}

// Token lets nodes join a cluster. Whoever has it can be a node of that role.
type Token struct {
	Cluster ClusterID
	// CA is the fingerprint by which the new node knows the cluster from an
	// impostor.
	CA      Fingerprint
	Role    Role
	Expires time.Time // in whole seconds
	// Seeds are addresses, host:port, of nodes to ask: 1 to 8.
	Seeds  []string
	Secret Secret
}

// ID names the token's record.
func (t Token) ID() string { return t.Secret.id() }

// String names the token without giving it away; Encode gives it away.
func (t Token) String() string { return "join token " + t.ID() }

// newToken draws a token's secret.
func newToken(c *Cluster, role Role, expires time.Time, seeds []string) Token {
	t := Token{Cluster: c.id, CA: c.Fingerprint(), Role: role, Expires: expires.Truncate(time.Second).UTC(), Seeds: seeds}
	rand.Read(t.Secret[:])
	return t
}

// Encode writes the one string that people copy: the prefix, then in base64url
// without padding
//
//	length   2 bytes, of all that follows it
//	role     1 byte, 1 voter, 2 edge
//	expires  8 bytes, seconds since 1970
//	cluster  16 bytes
//	CA       32 bytes, its SHA-256
//	secret   16 bytes
//	seeds    1 byte count, then each: 1 byte length, host:port
//	crc      4 bytes, CRC-32C over the prefix and everything before it
//
// The length tells a string that was cut short from one that was changed.
func (t Token) Encode() string {
	body := binary.BigEndian.AppendUint64([]byte{roleBytes[t.Role]}, uint64(t.Expires.Unix()))
	body = append(body, t.Cluster[:]...)
	body = append(body, t.CA[:]...)
	body = append(body, t.Secret[:]...)
	body = append(body, byte(len(t.Seeds)))
	for _, seed := range t.Seeds {
		body = append(append(body, byte(len(seed))), seed...)
	}
	data := binary.BigEndian.AppendUint16(nil, uint16(len(body)+4))
	data = append(data, body...)
	data = binary.BigEndian.AppendUint32(data, tokenSum(data))
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(data)
}

var (
	roleBytes  = map[Role]byte{Voter: 1, Edge: 2}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func tokenSum(data []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(TokenPrefix), castagnoli), castagnoli, data)
}

// ParseToken reads what Encode wrote. Space around it is left out. Messages show
// no part of the token.
func ParseToken(s string) (Token, error) {
	t, err := parseToken(strings.TrimSpace(s))
	if err != nil {
		return Token{}, fmt.Errorf("join token: %w", err)
	}
	return t, nil
}

func parseToken(s string) (Token, error) {
	text, ok := strings.CutPrefix(s, TokenPrefix)
	if !ok {
		return Token{}, fmt.Errorf("does not begin with %q; agent token join prints one", TokenPrefix)
	}
	if strings.ContainsAny(text, "\r\n") { // which package base64 would skip
		return Token{}, errors.New("goes over several lines; it is one line without spaces")
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(tokenDigits, r) }); i >= 0 {
		return Token{}, fmt.Errorf("character %d is none of a token", len(TokenPrefix)+i+1)
	}
	data, err := decodeTokenText(text)
	if err != nil {
		return Token{}, err
	}
	if sum := len(data) - 4; binary.BigEndian.Uint32(data[sum:]) != tokenSum(data[:sum]) {
		return Token{}, errors.New("does not match its checksum: a character was changed; copy it again")
	}
	return readToken(data[2 : len(data)-4])
}

const tokenDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// leastToken is the size of a token without seeds.
const leastToken = 2 + 1 + 8 + 16 + 32 + 16 + 1 + 4

// decodeTokenText compares the length that the token names with the one it has.
func decodeTokenText(text string) ([]byte, error) {
	const head = 3 // characters that hold the length
	if len(text) <= head {
		return nil, errors.New("is cut short; copy it again")
	}
	length, err := base64.RawURLEncoding.DecodeString(text[:head])
	if err != nil {
		return nil, errors.New("begins with no length; copy it again")
	}
	size := 2 + int(binary.BigEndian.Uint16(length))
	switch want := base64.RawURLEncoding.EncodedLen(size); {
	case len(text) < want:
		return nil, fmt.Errorf("is cut short: has %d characters of %d; copy it again", len(TokenPrefix)+len(text), len(TokenPrefix)+want)
	case len(text) > want:
		return nil, fmt.Errorf("has %d characters after its end, or was changed; copy it again", len(text)-want)
	case size < leastToken:
		return nil, errors.New("is too short to be one; copy it again")
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("its last character was changed; copy it again")
	}
	return data, nil
}

// readToken reads a body whose checksum is right.
func readToken(body []byte) (t Token, err error) {
	for role, b := range roleBytes {
		if b == body[0] {
			t.Role = role
		}
	}
	if t.Role == "" {
		return Token{}, fmt.Errorf("is for role %d, which this version does not know", body[0])
	}
	t.Expires = time.Unix(int64(binary.BigEndian.Uint64(body[1:])), 0).UTC()
	if year := t.Expires.Year(); year < 0 || year > lastYear {
		return Token{}, fmt.Errorf("expires in the year %d, want one up to %d", year, lastYear)
	}
	body = body[9:]
	for _, field := range [][]byte{t.Cluster[:], t.CA[:], t.Secret[:]} {
		body = body[copy(field, body):]
	}
	t.Seeds, err = readSeeds(body[1:], int(body[0]))
	return t, err
}

func readSeeds(data []byte, count int) ([]string, error) {
	var seeds []string
	for range count {
		if len(data) == 0 || len(data) < 1+int(data[0]) {
			return nil, errors.New("has addresses that are cut short")
		}
		n := 1 + int(data[0])
		seeds = append(seeds, string(data[1:n]))
		data = data[n:]
	}
	if len(data) > 0 {
		return nil, errors.New("has bytes after its addresses")
	}
	return seeds, checkSeeds(seeds)
}

// checkSeeds checks the addresses of a token.
func checkSeeds(seeds []string) error {
	if len(seeds) == 0 || len(seeds) > maxTokenSeeds {
		return fmt.Errorf("names %d addresses to ask, want 1 to %d", len(seeds), maxTokenSeeds)
	}
	for _, seed := range seeds {
		if err := checkSeed(seed); err != nil {
			return err
		}
	}
	return nil
}

func checkSeed(seed string) error {
	host, port, err := net.SplitHostPort(seed)
	if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || n == 0 || host == "" || len(seed) > maxSeed || !printable(seed) {
		return fmt.Errorf("address %q: want host:port", shorten(seed))
	}
	return nil
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
