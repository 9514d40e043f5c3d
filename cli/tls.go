package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) tls() *urfave.Command {
	return &urfave.Command{Name: "tls", Usage: "look at the certificates by which nodes know each other", Subcommands: []*urfave.Command{
		withNode(p.tlsShow("ca", "show the certificate of the cluster's CA")),
		withNode(p.tlsShow("cert", "show the certificate of the node")),
		{
			Name: "inspect", Usage: "say what the certificates in a PEM file are", ArgsUsage: "FILE",
			Description: "FILE is - for the standard input. Needs no agent.",
			Action:      p.runInspect,
		},
	}}
}

// tlsShow makes the command that shows one of the certificates that a node has.
func (p *program) tlsShow(name, usage string) *urfave.Command {
	kinds := map[string]string{"ca": "ca", "cert": "node"}
	return &urfave.Command{
		Name: name, Usage: usage,
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "pem", Usage: "print the certificate itself, in PEM form"},
		},
		Action: func(c *urfave.Context) error { return p.runShow(c, kinds[name]) },
	}
}

func (p *program) runShow(c *urfave.Context, kind string) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	if c.Bool("pem") && c.IsSet("output") {
		return usageError("%s: --pem and --output: give one of them", c.Command.Name)
	}
	var list api.CertificateList
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/certificates"}, &list); err != nil {
		return err
	}
	for _, certificate := range list.Certificates {
		switch {
		case certificate.Kind != kind:
			continue
		case c.Bool("pem"):
			_, err := io.WriteString(s.stdout, certificate.PEM)
			return err
		}
		return printOne(s.out, certificate, certificate.Fingerprint, func(w io.Writer) error {
			return certificateTable(certificate, time.Now(), s.out.style).write(w)
		})
	}
	return &failure{code: exitNotFound, problem: s.place() + ": has no such certificate, since it speaks with others without TLS, or with none", next: "agent status"}
}

func (p *program) runInspect(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	name := c.Args().First()
	data, err := readFile(name, s.stdin)
	if err != nil {
		return err
	}
	list, problem := api.ReadCertificates(data)
	fingerprint := func(c api.Certificate) string { return c.Fingerprint }
	err = printList(s.out, list, fingerprint, func(w io.Writer) error {
		for i, certificate := range list {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := certificateTable(certificate, time.Now(), s.out.style).write(w); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && problem != nil {
		err = invalid("%s: %s", name, strings.ReplaceAll(problem.Error(), "\n", "; "))
	}
	return err
}

// maxPEM bounds a file of certificates, each of which has some 500 bytes.
const maxPEM = 1 << 20

func readFile(name string, stdin io.Reader) ([]byte, error) {
	input := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, unreadable(name, err)
		}
		defer file.Close()
		input = file
	}
	data, err := io.ReadAll(io.LimitReader(input, maxPEM))
	if err != nil {
		return nil, unreadable(name, err)
	}
	return data, nil
}

func certificateTable(c api.Certificate, now time.Time, style style) table {
	var t table
	for _, row := range [][]string{
		{"kind", c.Kind},
		{"cluster", c.Cluster},
		{"node", c.Node},
		{"role", c.Role},
		{"subject", c.Subject},
		{"names", strings.Join(c.Names, ", ")},
		{"serial", c.Serial},
		{"from", c.NotBefore.Format(time.RFC3339)},
		{"until", c.NotAfter.Format(time.RFC3339)},
		{"state", validity(c, now)},
		{"sha256", c.Fingerprint},
		{"key", c.Key},
		{"voter key", c.VoterKey},
	} {
		if row[1] != "" {
			t.rows = append(t.rows, row)
		}
	}
	t.paint = func(cell string) string {
		if strings.HasPrefix(cell, "expired") || strings.HasPrefix(cell, "not yet") {
			return style.bad(cell)
		}
		return cell
	}
	return t
}

// endless is the year of a certificate that has no end (RFC 5280 §4.1.2.5).
const endless = 9999

func validity(c api.Certificate, now time.Time) string {
	switch {
	case c.NotAfter.Year() >= endless && now.After(c.NotBefore):
		return "valid, without an end"
	case now.Before(c.NotBefore):
		return "not yet valid, in " + lasting(c.NotBefore.Sub(now))
	case now.After(c.NotAfter):
		return "expired " + age(c.NotAfter, now) + " ago"
	}
	return "valid for " + lasting(c.NotAfter.Sub(now))
}
