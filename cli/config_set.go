package cli

import (
	"io"
	"net/http"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
	"grapevine/gateway/spec"
)

func (p *program) configSet() *urfave.Command {
	return &urfave.Command{
		Name: "set", Usage: "check and write one value", ArgsUsage: "KEY VALUE",
		Description: "VALUE is - for the standard input, @FILE, JSON, YAML on several lines, or shorthand:\n" +
			"path=/booking/{**catch-all},backends=http://10.0.0.5:80,backends=http://10.0.0.6:80\n" +
			"Dots nest, a field that is repeated or [a,b] makes a list, \\, is a comma, and a bare on or off will do for\n" +
			"maintenance. Files and the standard input hold JSON or YAML. The stored form is echoed on stderr.",
		Flags: append(writeFlags(),
			&urfave.BoolFlag{Name: "create", Usage: "only if the key is absent"},
			&urfave.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "keep `TEXT` as the reason of the change"},
		),
		Action: p.runConfigSet,
	}
}

func (p *program) runConfigSet(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	r, share, err := p.setRequest(c)
	if err != nil {
		return err
	}
	var w api.Written
	if err := s.agent.fetch(c.Context, r, &w); err != nil {
		return err
	}
	s.sayFaults("notice", w.Notices)
	s.say("%s = %s", w.Key, compact(w.Value))
	if err := printOne(s.out, w, w.Key, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	if w.DryRun {
		s.say("this was a dry run: nothing was written")
		return nil
	}
	return s.receipt(w.Rev, w.Applied, share)
}

// setRequest reads and checks the value before anything is sent: what is wrong with it is known here as well as there.
func (p *program) setRequest(c *urfave.Context) (r request, share api.Share, err error) {
	if r, share, err = writeRequest(c, http.MethodPut); err != nil {
		return r, share, err
	}
	if c.Bool("create") {
		if c.IsSet("cas") {
			return r, share, usageError("config set: --create says what --cas 0 says; give one of them")
		}
		r.header.Set("If-None-Match", "*")
	}
	if message := c.String("message"); message != "" {
		r.query.Set("message", message)
	}
	v, err := readValue(c.Args().Get(1), p.stdin)
	if err != nil {
		return r, share, err
	}
	decoded, err := spec.Decode(r.key, v.data, v.form)
	if err != nil {
		return r, share, faulty(r.key, err)
	}
	r.body = v.data
	r.header.Set("Content-Type", v.contentType(decoded.Value == nil))
	return r, share, nil
}
