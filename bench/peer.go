//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// setup is what a peer is to do: take requests at port and hand them to upstream.
type setup struct {
	dir      string // the peer's own, for its configuration and whatever it writes
	port     int
	admin    int // a second port, for peers that are told changes there
	upstream int
	workers  int
	prefixes []string // paths that are routed, each ending in /; none: every path
}

// peer is a proxy that the bench can run.
type peer interface {
	name() string
	// find says what to install if the program is not there.
	find() error
	// binary is the program found, and arguments that make it tell its version.
	binary() (file string, version []string)
	// configure writes the configuration, and returns the command that serves it and the configuration's text.
	configure(setup) (command []string, config string, err error)
	// change makes a running peer serve another setup, in the way that is meant for it in production.
	change(context.Context, *process, setup) error
}

// allPeers are in the order of the tables.
func allPeers(agent string) []peer {
	return []peer{
		&gateway{file: agent},
		&nginx{},
		&nginx{large: true},
		&haproxy{},
		&caddy{},
		&relay{},
	}
}

const (
	oursName  = "grapevine"
	nginxName = "nginx"
	relayName = "relay"
)

// gateway is this project's own. Correlation ids, forwarding headers and metrics are on, since they are by default.
type gateway struct{ file string }

func (*gateway) name() string { return oursName }

func (g *gateway) find() error {
	if _, err := os.Stat(g.file); err != nil {
		return fmt.Errorf("%w; make build makes it", err)
	}
	file, err := filepath.Abs(g.file)
	g.file = file
	return err
}

func (g *gateway) binary() (string, []string) { return g.file, []string{"version"} }

func (g *gateway) configure(s setup) ([]string, string, error) {
	type object = map[string]any
	routes := object{}
	for _, prefix := range s.prefixes {
		routes[routeID(prefix)] = object{"path": prefix + "{**rest}", "cluster": "backend"}
	}
	if len(routes) == 0 {
		routes["all"] = object{"path": "/{**rest}", "cluster": "backend"}
	}
	config, err := json.Marshal(object{
		"clusters": object{"backend": object{"destinations": object{"one": object{"address": fmt.Sprintf("http://127.0.0.1:%d", s.upstream)}}}},
		"routes":   routes,
	})
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(s.dir, "gateway.json")
	command := []string{
		g.file, "run", "--config", file, "--data-dir", filepath.Join(s.dir, "data"),
		"--http", fmt.Sprintf("127.0.0.1:%d", s.port), "--admin", fmt.Sprintf("127.0.0.1:%d", s.admin),
	}
	return command, string(config), os.WriteFile(file, config, 0o600)
}

func routeID(prefix string) string { return strings.Trim(strings.ReplaceAll(prefix, "/", "-"), "-") }

// change writes the last route by the API, as an operator does; it is durable and served when the call returns.
func (g *gateway) change(ctx context.Context, _ *process, s setup) error {
	added := s.prefixes[len(s.prefixes)-1]
	body := fmt.Sprintf(`{"path":%q,"cluster":"backend"}`, added+"{**rest}")
	socket := filepath.Join(s.dir, "data", "agent.sock")
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	return call(ctx, client, "PUT", "http://agent/v1/kv/gateway/routes/"+routeID(added), []byte(body))
}

func call(ctx context.Context, client *http.Client, method, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d: %s", method, url, response.StatusCode, said)
	}
	return err
}

// nginx has one worker process for each CPU it is given.
type nginx struct {
	large bool // proxy buffers that hold a body of 1 MiB, in place of the default of 32 KiB
	file  string
}

func (n *nginx) name() string {
	if n.large {
		return "nginx, large buffers"
	}
	return nginxName
}

func (n *nginx) find() (err error) {
	n.file, err = lookPath("nginx", "apt-get install nginx-light")
	return err
}

func (n *nginx) binary() (string, []string) { return n.file, []string{"-v"} }

func (n *nginx) configure(s setup) ([]string, string, error) {
	var b strings.Builder
	if os.Geteuid() == 0 {
		b.WriteString("user root;\n") // the workers write bodies that outgrow the buffers below dir
	}
	fmt.Fprintf(&b, `worker_processes %d;
daemon off;
pid nginx.pid;
error_log error.log error;
worker_rlimit_nofile 20000;
events { worker_connections 19000; }
http {
	access_log off;
	keepalive_requests 100000000;
	keepalive_timeout 300s;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_set_header Host $host;
	proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
	proxy_set_header X-Forwarded-Proto $scheme;
	proxy_set_header X-Forwarded-Host $host;
`, s.workers)
	if n.large {
		b.WriteString("\tproxy_buffer_size 64k;\n\tproxy_buffers 17 64k;\n\tproxy_busy_buffers_size 256k;\n")
	}
	fmt.Fprintf(&b, "\tupstream backend { server 127.0.0.1:%d; keepalive 1024; keepalive_requests 100000000; }\n", s.upstream)
	fmt.Fprintf(&b, "\tserver {\n\t\tlisten 127.0.0.1:%d backlog=4096;\n", s.port)
	for _, prefix := range orAll(s.prefixes) {
		fmt.Fprintf(&b, "\t\tlocation %s { proxy_pass http://backend; }\n", prefix)
	}
	b.WriteString("\t}\n}\n")
	return []string{n.file, "-e", "error.log", "-p", s.dir, "-c", "nginx.conf"}, b.String(), replaceFile(filepath.Join(s.dir, "nginx.conf"), b.String())
}

func (n *nginx) change(_ context.Context, p *process, s setup) error {
	return changeBySignal(n, p, s, syscall.SIGHUP)
}

func changeBySignal(p peer, running *process, s setup, signal syscall.Signal) error {
	if _, _, err := p.configure(s); err != nil {
		return err
	}
	return running.cmd.Process.Signal(signal)
}

func orAll(prefixes []string) []string {
	if len(prefixes) == 0 {
		return []string{"/"}
	}
	return prefixes
}

// haproxy runs as master and worker, so that it can be reloaded, with one thread for each CPU.
type haproxy struct{ file string }

func (*haproxy) name() string { return "HAProxy" }

func (h *haproxy) find() (err error) {
	h.file, err = lookPath("haproxy", "apt-get install haproxy")
	return err
}

func (h *haproxy) binary() (string, []string) { return h.file, []string{"-v"} }

func (h *haproxy) configure(s setup) ([]string, string, error) {
	config := fmt.Sprintf(`global
	nbthread %d
	maxconn 9900
	stats socket %s level admin expose-fd listeners
defaults
	mode http
	timeout connect 5s
	timeout client 300s
	timeout server 300s
	timeout http-request 10s
	http-reuse always
	option forwardfor
frontend front
	bind 127.0.0.1:%d
	http-request set-header X-Forwarded-Proto http
	http-request set-header X-Forwarded-Host %%[req.hdr(Host)]
	use_backend %%[path,map_beg(%s)]
backend backend
	server one 127.0.0.1:%d pool-max-conn -1
`, s.workers, filepath.Join(s.dir, "admin.sock"), s.port, filepath.Join(s.dir, "routes.map"), s.upstream)
	var routes strings.Builder
	for _, prefix := range orAll(s.prefixes) {
		fmt.Fprintf(&routes, "%s backend\n", prefix)
	}
	if err := replaceFile(filepath.Join(s.dir, "routes.map"), routes.String()); err != nil {
		return nil, "", err
	}
	file := filepath.Join(s.dir, "haproxy.cfg")
	return []string{h.file, "-W", "-db", "-f", file}, config + "\n# routes.map\n" + routes.String(), replaceFile(file, config)
}

func (h *haproxy) change(_ context.Context, p *process, s setup) error {
	return changeBySignal(h, p, s, syscall.SIGUSR2)
}

// caddy is configured in JSON, its native form.
type caddy struct{ file string }

func (*caddy) name() string { return "Caddy" }

func (c *caddy) find() (err error) {
	c.file, err = lookPath("caddy", "go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9")
	return err
}

func (c *caddy) binary() (string, []string) { return c.file, []string{"version"} }

func (c *caddy) configure(s setup) ([]string, string, error) {
	type object = map[string]any
	proxy := []object{{
		"handler":   "reverse_proxy",
		"upstreams": []object{{"dial": fmt.Sprintf("127.0.0.1:%d", s.upstream)}},
		"transport": object{
			"protocol": "http", "compression": false,
			"keep_alive": object{"max_idle_conns": 4096, "max_idle_conns_per_host": 4096},
		},
	}}
	var routes []object
	for _, prefix := range orAll(s.prefixes) {
		routes = append(routes, object{"match": []object{{"path": []string{prefix + "*"}}}, "handle": proxy})
	}
	config, err := json.Marshal(object{
		"admin":   object{"listen": fmt.Sprintf("127.0.0.1:%d", s.admin), "config": object{"persist": false}},
		"logging": object{"logs": object{"default": object{"level": "ERROR"}}},
		"apps": object{"http": object{"servers": object{"front": object{
			"listen":          []string{fmt.Sprintf("127.0.0.1:%d", s.port)},
			"automatic_https": object{"disable": true},
			"protocols":       []string{"h1"},
			"routes":          routes,
		}}}},
	})
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(s.dir, "caddy.json")
	return []string{c.file, "run", "--config", file}, string(config), replaceFile(file, string(config))
}

func (c *caddy) change(ctx context.Context, _ *process, s setup) error {
	_, config, err := c.configure(s)
	if err != nil {
		return err
	}
	return call(ctx, http.DefaultClient, "POST", fmt.Sprintf("http://127.0.0.1:%d/load", s.admin), []byte(config))
}

// relay is the ceiling: it moves bytes and parses nothing.
type relay struct{ file string }

func (*relay) name() string { return relayName }

func (r *relay) find() (err error) {
	r.file, err = os.Executable()
	return err
}

func (r *relay) binary() (string, []string) { return r.file, nil }

func (r *relay) configure(s setup) ([]string, string, error) {
	return []string{r.file, "relay", fmt.Sprint(s.port), fmt.Sprint(s.upstream), fmt.Sprint(s.workers)}, "", nil
}

func (*relay) change(context.Context, *process, setup) error {
	return fmt.Errorf("a relay has no routes")
}

func lookPath(program, install string) (string, error) {
	if file, err := exec.LookPath(program); err == nil {
		return file, nil
	}
	out, err := exec.Command("go", "env", "GOBIN", "GOPATH").Output() // go install's folder need not be in PATH
	if err == nil {
		lines := strings.Split(string(out), "\n")
		for _, dir := range []string{lines[0], filepath.Join(lines[1], "bin")} {
			file := filepath.Join(dir, program)
			if info, err := os.Stat(file); err == nil && dir != "" && info.Mode()&0o111 != 0 {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("there is no %s here; to have it: %s", program, install)
}

// replaceFile never lets a reader see half a file.
func replaceFile(name, text string) error {
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// sum is the SHA-256 of a file, in hex.
func sum(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// version is the first line that the program says of itself.
func version(p peer) string {
	file, args := p.binary()
	if args == nil {
		return "this program"
	}
	out, err := exec.Command(file, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		return fmt.Sprintf("%s (%v)", line, err)
	}
	if info, err := buildinfo.ReadFile(file); err == nil && line == "unknown" { // go install leaves Caddy's own word for it empty
		return info.Main.Version + ", " + info.GoVersion
	}
	return line
}

func sumText(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}
