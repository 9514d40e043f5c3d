package cli

import (
	"net/http"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) routesLint() *urfave.Command {
	return &urfave.Command{
		Name: "lint", Usage: "list what in the live table works, and is probably not meant",
		Description: "Such as a route that another one hides entirely, or a cluster that no route uses. Exits with 0 whatever it finds.",
		Action:      p.runRoutesLint,
	}
}

func (p *program) runRoutesLint(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var lint api.Lint
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/routes/lint"}, &lint); err != nil {
		return err
	}
	if len(lint.Notices) == 0 && s.out.format == formatTable {
		s.say("no notices at revision %s", shortRev(lint.Rev))
	}
	return printFaults(s.out, lint.Notices)
}
