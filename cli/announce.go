package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
	"grapevine/announce"
	"grapevine/gateway/spec"
)

func (p *program) announce() *urfave.Command {
	return &urfave.Command{
		Name: "announce", Usage: "announce a service for as long as its command runs", ArgsUsage: "[COMMAND...]",
		Description: "Runs COMMAND, announces it to the gateways of the cluster once it answers, and withdraws it when it ends. On\n" +
			"SIGTERM and SIGINT all gateways confirm first that they are done with it, and then COMMAND gets the signal, so\n" +
			"that no request fails; a second signal goes to it at once. HUP, USR1 and USR2 are passed on. COMMAND ends with\n" +
			"agent announce, however that ends. Without a COMMAND it announces until it is interrupted.\n" +
			"Where the agent is away it is asked again until it is there; the instance keeps its id.\n" +
			"It exits as COMMAND did: with its code, or 128+n after signal n. 125: agent announce itself failed, as with an\n" +
			"announcement that is refused; 126: COMMAND can't be run; 127: it is not there.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "route", Usage: "serve route `ID`, which all instances of the service share"},
			&urfave.StringFlag{Name: "path", Usage: "take the paths of `TEMPLATE`, as /warehouse/{**rest}"},
			&urfave.StringFlag{Name: "path-remove-prefix", Usage: "take `PREFIX` off the path before it is forwarded"},
			&urfave.StringFlag{Name: "address", Usage: "be reached at `URL`, as http://10.0.0.5:8080"},
			&urfave.StringFlag{Name: "port", Usage: "be reached at `PORT` of the host at which the other nodes reach the agent"},
			&urfave.StringFlag{Name: "address-template", Usage: "be reached at `URL`, with variables of the environment, as 'http://${POD_IP}:8080'"},
			&urfave.StringFlag{Name: "wait-http", Usage: "announce once GET `PATH` of the service is answered with 2xx"},
			&urfave.StringFlag{Name: "wait-timeout", Value: "60s", Usage: "end COMMAND if that takes longer than `DURATION`"},
			&urfave.StringFlag{Name: "drain", Value: "5s", Usage: "wait `DURATION` at most for the gateways before COMMAND gets the signal to end"},
			&urfave.BoolFlag{Name: "require-auth", Usage: "refuse requests without a valid token"},
			&urfave.BoolFlag{Name: "allow-anonymous", Usage: "never ask for a token"},
			&urfave.StringFlag{Name: "weight", Usage: "take a share of `NUMBER`, relative to the other instances"},
			&urfave.StringFlag{Name: "version", Usage: "say that it runs `VERSION`"},
			&urfave.StringFlag{Name: "region", Usage: "say that it runs in region `NAME` (default: that of its agent)"},
			&urfave.StringFlag{Name: "instance", Usage: "be known as instance `ID`; the agent makes one otherwise"},
			&urfave.StringFlag{Name: "heartbeat", Usage: "tell every `DURATION` that it lives; the connection alone says so otherwise"},
			&urfave.StringFlag{Name: "token-file", Usage: "show the token in `FILE`, where gateway/config/announce asks for one"},
			&urfave.StringFlag{Name: "config", Usage: "take what no flag says from the section announce of `FILE`, YAML or JSON"},
		},
		Action: p.runAnnounce,
	}
}

// wrapping is what agent announce was asked to do.
type wrapping struct {
	config   announce.Config
	port     int    // the address is yet to be found: this port of the agent's host
	probe    string // URL that has to answer before; empty: none
	patience time.Duration
	drain    time.Duration
	timeout  time.Duration // of a question to the agent
	command  []string
}

func (p *program) runAnnounce(c *urfave.Context) error {
	if c.IsSet("output") {
		return noOutput(c)
	}
	w, err := readWrapping(c)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if c.Bool("quiet") {
		level = slog.LevelError
	}
	w.config.Logger = slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: level}))
	return p.wrap(w)
}

// readWrapping reads the flags, over the file.
func readWrapping(c *urfave.Context) (w wrapping, err error) {
	f := announceFlags{Context: c}
	w.command = c.Args().Slice()
	if name := c.String("config"); name != "" {
		w.config, err = announceFile(name)
		if err != nil {
			return w, err
		}
	}
	f.over(&w.config.Route, "route")
	f.over(&w.config.Path, "path")
	f.over(&w.config.PathRemovePrefix, "path-remove-prefix")
	f.over(&w.config.Version, "version")
	f.over(&w.config.Region, "region")
	f.over(&w.config.Instance, "instance")
	w.config.Agent = c.String("addr")
	w.config.RequireAuth = w.config.RequireAuth || c.Bool("require-auth")
	w.config.AllowAnonymous = w.config.AllowAnonymous || c.Bool("allow-anonymous")
	w.config.Drain = -1 // the wrapper drains itself, before the signal
	if f.given("weight") {
		weight := f.number("weight", 0, 1_000_000)
		w.config.Weight = &weight
	}
	if f.given("heartbeat") {
		w.config.Heartbeat = f.duration("heartbeat")
	}
	w.drain, w.patience, w.timeout = f.duration("drain"), f.duration("wait-timeout"), f.duration("timeout")
	w.config.Token = f.file("token-file")
	f.address(&w)
	for _, required := range []struct{ flag, value string }{{"route", w.config.Route}, {"path", w.config.Path}} {
		if required.value == "" {
			f.problem("--%s is missing", required.flag)
		}
	}
	return w, f.err()
}

// announceFile reads the section announce of a static file, in any of its forms.
func announceFile(name string) (config announce.Config, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return config, usageError("--config %q: %v", name, root(err))
	}
	file, err := spec.ParseFiles(spec.Input{Name: name, Data: data})
	if err != nil {
		return config, faulty(name, err)
	}
	i := file.Announce
	if i == nil {
		return config, invalid("--config %q: has no section announce", name)
	}
	return announce.Config{
		Route: string(i.RouteID), Instance: i.InstanceID, Path: string(i.Path), PathRemovePrefix: string(i.PathRemovePrefix),
		Address: string(i.Address), Version: i.Version, Region: i.Region, Weight: i.Weight, RequireAuth: i.RequireAuth,
		AllowAnonymous: i.AllowAnonymous, Heartbeat: time.Duration(i.Heartbeat), Labels: i.Labels,
	}, nil
}

// announceFlags gathers everything that is wrong with the flags.
type announceFlags struct {
	*urfave.Context
	problems []string
}

func (f *announceFlags) problem(format string, values ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, values...))
}

func (f *announceFlags) err() error {
	if f.problems == nil {
		return nil
	}
	return usageError("announce: %s", strings.Join(f.problems, "; "))
}

func (f *announceFlags) given(flag string) bool { return f.String(flag) != "" }

func (f *announceFlags) over(field *string, flag string) {
	if f.given(flag) {
		*field = f.String(flag)
	}
}

// duration is 0 where the flag is not given.
func (f *announceFlags) duration(flag string) time.Duration {
	if !f.given(flag) {
		return 0
	}
	d, err := time.ParseDuration(f.String(flag))
	if err != nil || d <= 0 {
		f.problem("--%s %q: not a duration above zero, like 5s", flag, f.String(flag))
	}
	return d
}

func (f *announceFlags) number(flag string, least, most int) int {
	n, err := strconv.Atoi(f.String(flag))
	if err != nil || n < least || n > most {
		f.problem("--%s %q: not a number from %d to %d", flag, f.String(flag), least, most)
	}
	return n
}

// file is what a file holds, without the space around it.
func (f *announceFlags) file(flag string) string {
	if !f.given(flag) {
		return ""
	}
	data, err := os.ReadFile(f.String(flag))
	if err != nil {
		f.problem("--%s %q: %v", flag, f.String(flag), root(err))
	}
	return strings.TrimSpace(string(data))
}

// address finds where the service is reached, by the one flag that says so, else by the file.
func (f *announceFlags) address(w *wrapping) {
	ways := slices.DeleteFunc([]string{"address", "port", "address-template"}, func(flag string) bool { return !f.given(flag) })
	switch {
	case len(ways) > 1:
		f.problem("--%s and --%s: both say where it is reached", ways[0], ways[1])
	case len(ways) == 0 && w.config.Address == "":
		f.problem("--address, --port or --address-template is missing: where the gateways reach it")
	case len(ways) == 0:
	case ways[0] == "port":
		w.port = f.number("port", 1, 65535)
		w.config.Address = ""
	case ways[0] == "address":
		w.config.Address = f.String("address")
	default:
		w.config.Address = f.expand("address-template")
	}
	if path := f.String("wait-http"); path != "" {
		if !strings.HasPrefix(path, "/") {
			f.problem("--wait-http %q: not a path, like /ready", path)
		}
		w.probe = w.config.Address + path
		if w.port > 0 {
			w.probe = fmt.Sprintf("http://127.0.0.1:%d%s", w.port, path)
		}
	}
}

// expand puts the environment in the place of $NAME and ${NAME}.
func (f *announceFlags) expand(flag string) string {
	return os.Expand(f.String(flag), func(name string) string {
		value, set := os.LookupEnv(name)
		if !set || value == "" {
			f.problem("--%s %q: %s is not set in the environment", flag, f.String(flag), name)
		}
		return value
	})
}

// findAddress asks the agent at which host the other nodes reach it, until it answers.
func (w *wrapping) findAddress(ctx context.Context) error {
	for told := false; w.config.Address == ""; {
		host, err := w.hostOfAgent(ctx)
		switch {
		case err == nil:
			w.config.Address = "http://" + net.JoinHostPort(host, strconv.Itoa(w.port))
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !told:
			told = true
			w.config.Logger.Warn("the agent can't be reached; trying again", "err", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (w *wrapping) hostOfAgent(ctx context.Context) (string, error) {
	place, err := locate(w.config.Agent)
	if err != nil {
		return "", err
	}
	var list api.MemberList
	if err := newClient(place, w.timeout).fetch(ctx, request{method: http.MethodGet, path: "/v1/members"}, &list); err != nil {
		return "", err
	}
	for _, m := range list.Members {
		if !m.Self {
			continue
		}
		if m.Address == "" {
			return "127.0.0.1", nil // it is alone
		}
		host, _, err := net.SplitHostPort(m.Address)
		return host, err
	}
	return "", errors.New("the agent does not say where the other nodes reach it")
}
