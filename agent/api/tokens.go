package api

import (
	"context"
	"net/http"
	"time"
)

// TokenRequest is the body of POST /v1/tokens.
type TokenRequest struct {
	Role string `json:"role,omitempty" doc:"what nodes it shall make: voter (the default), which may come to vote, or edge, which never does"`
	TTL  string `json:"ttl,omitempty" doc:"how long it admits nodes, as 30m or 24h (the default)"`
	Uses int    `json:"uses,omitempty" doc:"how many nodes it admits; 0: any number"`
}

// NewToken answers it.
type NewToken struct {
	Secret string `json:"token" doc:"what a new node is given; it is kept nowhere"`
	Token
}

// TokenList answers GET /v1/tokens.
type TokenList struct {
	Tokens []Token `json:"tokens" doc:"those that were not revoked, the newest first"`
}

// Revoked answers DELETE /v1/tokens/{id}.
type Revoked struct {
	ID string `json:"id" doc:"the token that admits nobody any more; nodes that it admitted stay"`
}

func (a *API) createToken(c *call) error {
	var doc TokenRequest
	if err := c.optional(&doc); err != nil {
		return err
	}
	wish, err := doc.wish()
	if err != nil {
		return err
	}
	return a.within(c, func(ctx context.Context) error {
		secret, token, err := a.Cluster.CreateToken(ctx, wish)
		if err == nil {
			a.answer(c, http.StatusOK, NewToken{Secret: secret, Token: token})
		}
		return err
	})
}

func (t TokenRequest) wish() (TokenWish, error) {
	wish := TokenWish{Role: t.Role, Uses: t.Uses}
	switch t.Role {
	case "":
		wish.Role = "voter"
	case "voter", "edge":
	default:
		return wish, fail(codeBadRequest, "role %q: is neither voter nor edge", t.Role)
	}
	if t.Uses < 0 {
		return wish, fail(codeBadRequest, "uses %d: is below zero", t.Uses)
	}
	if t.TTL != "" {
		var err error
		if wish.TTL, err = time.ParseDuration(t.TTL); err != nil || wish.TTL < time.Second {
			return wish, fail(codeBadRequest, "ttl %q: not a duration of at least 1s, like 24h", t.TTL)
		}
	}
	return wish, nil
}

func (a *API) tokens(c *call) error {
	return a.within(c, func(ctx context.Context) error {
		tokens, err := a.Cluster.Tokens(ctx)
		if err == nil {
			a.answer(c, http.StatusOK, TokenList{Tokens: append([]Token{}, tokens...)})
		}
		return err
	})
}

func (a *API) revokeToken(c *call) error {
	err := a.within(c, func(ctx context.Context) error { return a.Cluster.RevokeToken(ctx, c.rest) })
	if err == nil {
		a.answer(c, http.StatusOK, Revoked{ID: c.rest})
	}
	return err
}
