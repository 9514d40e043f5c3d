package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) configDelete() *urfave.Command {
	return &urfave.Command{
		Name: "delete", Usage: "delete a key, or with -r a prefix", ArgsUsage: "KEY",
		Description: "One key is deleted without a question. -r deletes the key itself and every key below it in one\n" +
			"revision, after it said how many there are and was told to go on.",
		Flags: append(writeFlags(),
			&urfave.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "every key below it, too"},
			yesFlag(),
		),
		Action: p.runConfigDelete,
	}
}

func (p *program) runConfigDelete(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	r, share, err := writeRequest(c, http.MethodDelete)
	if err != nil {
		return err
	}
	if c.Bool("recursive") {
		if r.header.Get("If-Match") != "" {
			return usageError("config delete: --cas compares one key: it can't go with -r")
		}
		r.query.Set("recurse", "1")
		if err := s.confirmDelete(c.Context, r.key, c.Bool("yes") || c.Bool("dry-run")); err != nil {
			return err
		}
	}
	var d api.Deleted
	if err := s.agent.fetch(c.Context, r, &d); err != nil {
		return err
	}
	s.sayFaults("notice", d.Notices)
	if err := printOne(s.out, d, d.Key, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	if d.DryRun {
		s.say("%s: %s would be deleted; this was a dry run, nothing was written", d.Key, plural(d.Deleted, "key"))
		return nil
	}
	s.say("%s: %s deleted", d.Key, plural(d.Deleted, "key"))
	return s.receipt(d.Rev, d.Applied, share)
}

// confirmDelete counts what a recursive delete takes, and asks.
func (s *session) confirmDelete(ctx context.Context, prefix string, yes bool) error {
	var listing api.Listing
	if err := s.agent.fetch(ctx, list(prefix, true), &listing); err != nil {
		return err
	}
	switch {
	case len(listing.Keys) == 0:
		return &failure{code: exitNotFound, problem: prefix + ": no such key, and none below it", next: "agent config list"}
	case yes:
		return nil
	}
	return s.confirm(ctx, fmt.Sprintf("delete %s: %s", prefix, plural(len(listing.Keys), "key")))
}
