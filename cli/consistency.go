package cli

import (
	"slices"

	urfave "github.com/urfave/cli/v2"
)

// consistencies are how new a read has to be.
var consistencies = []string{"local", "linearizable"}

func consistencyFlag() urfave.Flag {
	return &urfave.StringFlag{
		Name: "consistency", Value: "local",
		Usage: "read by `KIND`: local, what the node has; linearizable, all that was written before, which needs a quorum",
	}
}

// freshen makes a read as new as --consistency wants it.
func (r *request) freshen(c *urfave.Context) error {
	kind := c.String("consistency")
	switch {
	case !slices.Contains(consistencies, kind):
		return usageError("--consistency %q: neither local nor linearizable", kind)
	case kind == "linearizable":
		r.query.Set("consistency", kind)
		r.bounded = true
	}
	return nil
}
