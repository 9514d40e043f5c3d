package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/identity"
)

func TestTokens(t *testing.T) {
	made := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	tokens := []api.Token{
		{ID: "0123456789abcdef", Role: "voter", Created: made, Expires: made.Add(24 * time.Hour), State: "live"},
		{ID: "fedcba9876543210", Role: "edge", Created: made.Add(-time.Hour), Expires: made, Uses: 2, Used: 1, State: "expired"},
	}
	s := newPrepared(t, map[string]any{
		"POST /v1/tokens": api.NewToken{Secret: "gvt1.secret", Token: tokens[0]},
		"GET /v1/tokens":  api.TokenList{Tokens: tokens},
	})
	said := "token 0123456789abcdef admits any number of nodes, each as voter, until 2026-05-02T12:00:00Z\non a new node: agent run --join TOKEN\n"
	s.check(t, "token join", 0, "gvt1.secret\n", said, `POST /v1/tokens {"role":"voter"}`)
	s.check(t, "token join -q -o name --role edge --ttl 30m --uses 2", 0, "gvt1.secret\n", "", `POST /v1/tokens {"role":"edge","ttl":"30m","uses":2}`)
	r, _ := s.call("token join -o json -q")
	if !strings.Contains(r.stdout, `"token": "gvt1.secret"`) || !strings.Contains(r.stdout, `"id": "0123456789abcdef"`) {
		t.Errorf("token join -o json: %s", r.stdout)
	}
	s.check(t, "token list -o name", 0, "0123456789abcdef\nfedcba9876543210\n", "", "GET /v1/tokens")
	var b strings.Builder
	want := "" +
		"ID                ROLE   STATE    USED  AGE    EXPIRES\n" +
		"0123456789abcdef  voter  live     -     1m00s  2026-05-02T12:00:00Z\n" +
		"fedcba9876543210  edge   expired  1/2   1h01m  2026-05-01T12:00:00Z\n"
	if err := tokenTable(tokens, made.Add(time.Minute), style{}).write(&b); err != nil || b.String() != want {
		t.Errorf("%v, got\n%swant\n%s", err, b.String(), want)
	}
	s = newPrepared(t, map[string]any{"GET /v1/tokens": api.TokenList{Tokens: []api.Token{}}})
	s.check(t, "token list", 0, "", "no join tokens\n", "GET /v1/tokens")
}

func TestCertificates(t *testing.T) {
	founder, err := identity.Found(identity.Options{Node: "01j00000000000000000000000"})
	if err != nil {
		t.Fatal(err)
	}
	file := append(founder.Cluster().CertificatePEM(), founder.CertificatePEM()...)
	list, err := api.ReadCertificates(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newPrepared(t, map[string]any{"GET /v1/certificates": api.CertificateList{Certificates: list}})
	s.check(t, "tls ca --pem", 0, list[0].PEM, "", "GET /v1/certificates")
	s.check(t, "tls cert --pem", 0, list[1].PEM, "", "GET /v1/certificates")
	s.check(t, "tls cert -o name", 0, list[1].Fingerprint+"\n", "", "GET /v1/certificates")
	r, _ := s.call("tls cert")
	for _, part := range []string{"kind     node\n", "node     01j00000000000000000000000\n", "role     voter\n", "state    valid for 36", "sha256   " + list[1].Fingerprint + "\n"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("tls cert lacks %q:\n%s", part, r.stdout)
		}
	}

	t.Chdir(t.TempDir())
	if err := os.WriteFile("both.pem", file, 0o600); err != nil {
		t.Fatal(err)
	}
	r = call("", "tls", "inspect", "both.pem")
	if r.exit != 0 || !strings.HasPrefix(r.stdout, "kind       ca\n") || !strings.Contains(r.stdout, "\n\nkind     node\n") {
		t.Errorf("tls inspect: %+v", r)
	}
	if r := call(string(file), "tls", "inspect", "-", "-o", "name"); r.stdout != list[0].Fingerprint+"\n"+list[1].Fingerprint+"\n" {
		t.Errorf("tls inspect -: %+v", r)
	}
	if r := call("hello", "tls", "inspect", "-"); r.exit != exitInvalid || r.stderr != "error: -: holds no certificate in PEM form\n" {
		t.Errorf("tls inspect of no certificate: %+v", r)
	}
	if r := call("", "tls", "inspect", filepath.Join("no", "file")); r.exit != exitInvalid || r.stderr != "error: no/file: no such file or directory\n" {
		t.Errorf("tls inspect of no file: %+v", r)
	}
	s = newPrepared(t, map[string]any{"GET /v1/certificates": api.CertificateList{}})
	s.check(t, "tls ca", exitNotFound, "",
		"error: this node: has no such certificate, since it speaks with others without TLS, or with none\ntry: agent status\n", "GET /v1/certificates")
}

func TestValidity(t *testing.T) {
	from := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	c := api.Certificate{NotBefore: from, NotAfter: from.Add(48 * time.Hour)}
	for want, now := range map[string]time.Time{
		"not yet valid, in 1m00s": from.Add(-time.Minute), "valid for 2d00h": from, "valid for 1s": from.Add(48*time.Hour - time.Second),
		"expired 1h00m ago": from.Add(49 * time.Hour),
	} {
		if got := validity(c, now); got != want {
			t.Errorf("at %s: %s, want %s", now, got, want)
		}
	}
	c.NotAfter = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	if got := validity(c, from.Add(1)); got != "valid, without an end" {
		t.Errorf("without an end: %s", got)
	}
}
