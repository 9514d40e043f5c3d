package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// TokenPrefixKey is where the records of tokens stand in the store, each by its
// token's id.
const TokenPrefixKey = "cluster/tokens/"

// maxUses bounds a token that counts its uses: who used it stands in its record.
const maxUses = 1000

// lastYear is the last one that JSON's times can hold (RFC 3339 §1).
const lastYear = 9999

// TokenRecord is what the cluster keeps of a token. Deleting it revokes the
// token. Every node has it, and nobody can make the token of it.
type TokenRecord struct {
	ID   string
	Hash [sha256.Size]byte // of the secret
	Role Role
	// Created and Expires are in whole seconds.
	Created, Expires time.Time
	// Uses is how many nodes the token admits, 0 any number.
	Uses int
	// UsedBy are the nodes that used a token with Uses, each with the front of its
	// public key: the same node may ask again, when the answer got lost.
	UsedBy map[string]string
}

// TokenState is what became of a token.
type TokenState string

// The states of a token. One that was revoked has no record.
const (
	TokenLive    TokenState = "live"
	TokenExpired TokenState = "expired"
	TokenUsedUp  TokenState = "used-up"
)

// State tells whether the token admits another node at now.
func (r TokenRecord) State(now time.Time) TokenState {
	switch {
	case !now.Before(r.Expires):
		return TokenExpired
	case r.Uses > 0 && len(r.UsedBy) >= r.Uses:
		return TokenUsedUp
	}
	return TokenLive
}

// Key is where the record stands in the store.
func (r TokenRecord) Key() string { return TokenPrefixKey + r.ID }

// NeedsQuorum reports whether an admission has to be agreed on by the voters:
// where uses are counted, and where the keys of the cluster are handed out.
func (r TokenRecord) NeedsQuorum() bool { return r.Uses > 0 || r.Role != Edge }

// matches compares in constant time.
func (r TokenRecord) matches(secret Secret) bool {
	hash := secret.hash()
	return subtle.ConstantTimeCompare(hash[:], r.Hash[:]) == 1
}

// UseBy gives the record after node, with this public key, has used the token.
// changed is false when nothing has to be stored: the token counts no uses, or
// this node has used it before. It is to be called again on the newest record
// when storing it conflicts with another use. The error is a *Refusal.
func (r TokenRecord) UseBy(node string, key PublicKey, now time.Time) (used TokenRecord, changed bool, err error) {
	mark := hex.EncodeToString(key[:16])
	known := r.UsedBy[node] == mark
	switch state := r.State(now); {
	case state == TokenExpired:
		return r, false, refuse(ReasonExpired, "join token %s: expired at %s; agent token join prints a new one", r.ID, r.Expires.Format(time.RFC3339))
	case r.Uses == 0 || known:
		return r, false, nil
	case state == TokenUsedUp:
		return r, false, refuse(ReasonUsedUp, "join token %s: all its %d uses are taken; agent token join prints a new one", r.ID, r.Uses)
	case r.UsedBy[node] != "":
		return r, false, refuse(ReasonTaken, "join token %s: node %s has used it with another key", r.ID, node)
	}
	used = r
	used.UsedBy = maps.Clone(r.UsedBy)
	if used.UsedBy == nil {
		used.UsedBy = map[string]string{}
	}
	used.UsedBy[node] = mark
	return used, true, nil
}

// tokenValue is a record as it is stored.
type tokenValue struct {
	Hash    string            `json:"hash"`
	Role    Role              `json:"role"`
	Created time.Time         `json:"created"`
	Expires time.Time         `json:"expires"`
	Uses    int               `json:"uses,omitempty"`
	UsedBy  map[string]string `json:"usedBy,omitempty"`
}

// Encode gives the record's value in the store: JSON without the id, which the
// key holds.
func (r TokenRecord) Encode() []byte {
	data, err := json.Marshal(tokenValue{hex.EncodeToString(r.Hash[:]), r.Role, r.Created, r.Expires, r.Uses, r.UsedBy})
	if err != nil {
		panic(err) // no value of these types fails, but a year past 9999, which TokenOptions and the decoder refuse
	}
	return data
}

// DecodeTokenRecord reads a record of the store.
func DecodeTokenRecord(id string, value []byte) (TokenRecord, error) {
	r, err := decodeTokenRecord(id, value)
	if err != nil {
		return TokenRecord{}, fmt.Errorf("%s%s: %w", TokenPrefixKey, shorten(id), err)
	}
	return r, nil
}

func decodeTokenRecord(id string, value []byte) (TokenRecord, error) {
	var v tokenValue
	if err := decodeStrictly(value, &v); err != nil {
		return TokenRecord{}, err
	}
	r := TokenRecord{ID: id, Role: v.Role, Created: v.Created.UTC(), Expires: v.Expires.UTC(), Uses: v.Uses, UsedBy: v.UsedBy}
	hash, err := hex.DecodeString(v.Hash)
	if err != nil || len(hash) != len(r.Hash) {
		return TokenRecord{}, fmt.Errorf("hash %q: want %d hexadecimal digits", shorten(v.Hash), 2*len(r.Hash))
	}
	r.Hash = [sha256.Size]byte(hash)
	if want := hex.EncodeToString(hash[:8]); id != want {
		return TokenRecord{}, fmt.Errorf("its hash belongs to %s", want)
	}
	if _, err := ParseRole(string(v.Role)); err != nil {
		return TokenRecord{}, err
	}
	if r.Created.Year() > lastYear || r.Expires.Year() > lastYear {
		return TokenRecord{}, fmt.Errorf("created %s, expires %s: want years up to %d", r.Created, r.Expires, lastYear)
	}
	if v.Uses < 0 || v.Uses > maxUses || len(v.UsedBy) > v.Uses {
		return TokenRecord{}, fmt.Errorf("uses %d, used by %d: want 0 to %d, and used by no more", v.Uses, len(v.UsedBy), maxUses)
	}
	return r, nil
}

// TokenOptions say what a new token may do.
type TokenOptions struct {
	Role  Role
	Life  time.Duration // 0 is TokenLife
	Uses  int           // 0 is any number
	Seeds []string      // addresses of nodes to ask: 1 to 8
}

// maxTokenLife bounds a token's life: who needs a longer one needs none that
// ends.
const maxTokenLife = 10 * certificateLife

// NewToken makes a token and its record, which has to be stored before the token
// is worth anything.
func (c *Cluster) NewToken(o TokenOptions) (Token, TokenRecord, error) {
	if o.Life == 0 {
		o.Life = TokenLife
	}
	if err := o.check(); err != nil {
		return Token{}, TokenRecord{}, fmt.Errorf("join token: %w", err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	token := newToken(c, o.Role, now.Add(o.Life), o.Seeds)
	return token, TokenRecord{
		ID: token.ID(), Hash: token.Secret.hash(), Role: o.Role,
		Created: now, Expires: token.Expires, Uses: o.Uses,
	}, nil
}

func (o TokenOptions) check() error {
	_, err := ParseRole(string(o.Role))
	if o.Life < time.Second || o.Life > maxTokenLife {
		err = errors.Join(err, fmt.Errorf("life %s: want 1s to %s", o.Life, maxTokenLife))
	}
	if o.Uses < 0 || o.Uses > maxUses {
		err = errors.Join(err, fmt.Errorf("uses %d: want 1 to %d, or 0 for any number", o.Uses, maxUses))
	}
	return errors.Join(err, checkSeeds(o.Seeds))
}
