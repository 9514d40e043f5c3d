package api

import (
	"net/http"
	"net/netip"
	"strings"

	"grapevine/gateway"
	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// Lint answers GET /v1/routes/lint.
type Lint struct {
	Rev     string       `json:"rev" doc:"the revision of the live table"`
	Notices []spec.Fault `json:"notices" doc:"what works, and is probably not meant"`
}

// lint lists what in the live table works and is probably not meant.
func (a *API) lint(c *call) error {
	table := a.Gateway.Table()
	a.answer(c, http.StatusOK, Lint{Rev: table.Rev().String(), Notices: join(table.Lint())})
	return nil
}

// explain says what the live table would do with a request that nobody sent.
func (a *API) explain(c *call) error {
	q, err := question(c)
	if err != nil {
		return err
	}
	explanation, err := a.Gateway.Table().Explain(q)
	if err != nil {
		return fail(codeBadRequest, "%v", err)
	}
	a.answer(c, http.StatusOK, explanation)
	return nil
}

// question reads the request from the parameters that describe it.
func question(c *call) (gateway.Question, error) {
	q := gateway.Question{URL: c.query["url"]}
	var err error
	if method, given := c.query["method"]; given {
		if q.Method, err = parseMethod(method); err != nil {
			return q, err
		}
	}
	if client, given := c.query["client"]; given {
		if q.Client, err = parseClient(client); err != nil {
			return q, err
		}
	}
	for _, line := range c.r.URL.Query()["header"] {
		field, err := parseField(line)
		if err != nil {
			return q, err
		}
		q.Fields = append(q.Fields, field)
	}
	return q, nil
}

func parseMethod(s string) (string, error) {
	var method spec.Method
	switch err := method.UnmarshalText([]byte(s)); {
	case s == "*": // in a route it would stand for all of them
		return "", fail(codeBadRequest, `method "*": is not a request method`)
	case err != nil:
		return "", fail(codeBadRequest, "method %q: %v", s, err)
	}
	return string(method), nil
}

// parseClient gives an IPv4 address one form, as a connection's address has it.
func parseClient(s string) (netip.Addr, error) {
	client, err := netip.ParseAddr(s)
	if err != nil {
		return client, fail(codeBadRequest, "client %q: is not an IP address", s)
	}
	return client.Unmap(), nil
}

// parseField reads "Name: value". A Host would stand against the one of the URL.
func parseField(line string) (exchange.Field, error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return exchange.Field{}, fail(codeBadRequest, `header %q: is not of the form "Name: value"`, line)
	}
	var (
		headerName  spec.HeaderName
		headerValue spec.HeaderValue
	)
	if err := headerName.UnmarshalText([]byte(name)); err != nil {
		return exchange.Field{}, fail(codeBadRequest, "header %q: name %q %v", line, name, err)
	}
	if err := headerValue.UnmarshalText([]byte(strings.Trim(value, " \t"))); err != nil {
		return exchange.Field{}, fail(codeBadRequest, "header %q: the value %v", line, err)
	}
	if strings.EqualFold(name, "Host") {
		return exchange.Field{}, fail(codeBadRequest, "header %q: the host is part of the url", line)
	}
	return exchange.Field{Name: []byte(headerName), Value: []byte(headerValue)}, nil
}
