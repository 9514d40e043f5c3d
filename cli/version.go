package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	urfave "github.com/urfave/cli/v2"
)

// version is set by the linker (-X grapevine/cli.version=...), and by nothing else.
var version = "devel"

func (p *program) version() *urfave.Command {
	return &urfave.Command{Name: "version", Usage: "print the version of this program", Action: p.runVersion}
}

// build says what this program was made from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the sources differed from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p *program) runVersion(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	b := thisBuild()
	return printOne(s.out, b, b.Version, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, b)
		return err
	})
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	return fmt.Sprintf("%s %s (%s, %s, %s)", programName, b.Version, b.source(), b.Go, b.Platform)
}

// source names the commit.
func (b build) source() string {
	switch {
	case b.Commit == "":
		return "unknown commit"
	case b.Modified:
		return b.Commit + ", modified"
	}
	return b.Commit
}
