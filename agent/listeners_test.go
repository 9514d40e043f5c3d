package agent_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grapevine/agent"
)

// occupied is an address that somebody else listens on.
func occupied(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// Whoever starts the agent hears of everything that is in the way, and nothing stays bound.
func TestAllClashesAreToldAtOnce(t *testing.T) {
	c := config(t)
	c.Metrics = "127.0.0.1:0"
	other := start(t, c)

	c = config(t)
	free := occupiedAndFreed(t)
	c.HTTP, c.Admin, c.Metrics, c.Socket = occupied(t), free, other.Addresses()["metrics"], other.Addresses()["socket"]
	message := fails(t, c, 1)
	has(t, message, c.HTTP, "--http", c.Metrics, "--metrics", c.Socket, "--socket", "another agent answers there")
	if strings.Count(message, "already in use") != 2 || strings.Contains(message, "--admin") {
		t.Error(message)
	}
	listener, err := net.Listen("tcp", free)
	if err != nil {
		t.Fatalf("the free address is still bound: %v", err)
	}
	listener.Close()
	if r := other.get("socket", "/alive"); r.status != 200 {
		t.Errorf("the other agent answers %s", r)
	}
	// Nor does the data directory stay locked.
	c.HTTP, c.Metrics, c.Socket = "127.0.0.1:0", "", ""
	start(t, c)
}

// occupiedAndFreed is an address that nobody listens on.
func occupiedAndFreed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestWaysToWriteAnAddress(t *testing.T) {
	for _, address := range []string{"http://*:0", "http://+:0/", "*:0", "+:0", ":0", "http://127.0.0.1:0", "localhost:0", "[::1]:0", "http://[::1]:0"} {
		c := config(t)
		c.HTTP = address
		n := start(t, c)
		if r := n.get("http", "/alive"); r.status != 200 {
			t.Errorf("%s: %s", address, r)
		}
	}
}

func TestBadListeners(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*agent.Config)
		code   int
		parts  []string
	}{
		"no port":             {func(c *agent.Config) { c.HTTP = "127.0.0.1" }, 2, []string{`--http "127.0.0.1"`, "port"}},
		"large port":          {func(c *agent.Config) { c.HTTP = ":65536" }, 2, []string{`--http ":65536"`}},
		"other scheme":        {func(c *agent.Config) { c.HTTP = "ftp://*:80" }, 2, []string{`--http "ftp://*:80"`}},
		"https":               {func(c *agent.Config) { c.HTTP = "https://*:8443" }, 2, []string{"--http", "HTTPS"}},
		"foreign address":     {func(c *agent.Config) { c.HTTP = "192.0.2.1:0" }, 1, []string{`http listener "192.0.2.1:0"`, "--http"}},
		"API off loopback":    {func(c *agent.Config) { c.Admin = "0.0.0.0:8500" }, 2, []string{`--admin "0.0.0.0:8500"`, "loopback"}},
		"API everywhere":      {func(c *agent.Config) { c.Admin = ":8500" }, 2, []string{`--admin ":8500"`, "loopback"}},
		"API by name":         {func(c *agent.Config) { c.Admin = "gateway.example:8500" }, 2, []string{"--admin", "loopback"}},
		"bad gossip":          {func(c *agent.Config) { c.Gossip = "7946" }, 2, []string{"--gossip"}},
		"bad node":            {func(c *agent.Config) { c.Node = "node one" }, 2, []string{`--node "node one"`}},
		"bad region":          {func(c *agent.Config) { c.Region = "-" }, 2, []string{`--region "-"`}},
		"dev, open proxy":     {func(c *agent.Config) { c.Dev, c.DataDir, c.HTTP = true, "", ":8080" }, 2, []string{"--http", "--dev"}},
		"dev, open metrics":   {func(c *agent.Config) { c.Dev, c.DataDir, c.Metrics = true, "", "*:9090" }, 2, []string{"--metrics", "--dev"}},
		"dev, data directory": {func(c *agent.Config) { c.Dev = true }, 2, []string{"--data-dir", "--dev"}},
		"long socket":         {func(c *agent.Config) { c.Socket = "/tmp/" + strings.Repeat("s", 100) }, 1, []string{"--socket", "105 bytes"}},
		"socket nowhere":      {func(c *agent.Config) { c.Socket = "/nowhere/s" }, 1, []string{`"/nowhere/s"`, "--socket", "no such file"}},
		"several":             {func(c *agent.Config) { c.HTTP, c.Admin, c.Node = "x", "y", "z z" }, 2, []string{"--http", "--admin", "--node"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := config(t)
			c.change(&config)
			has(t, fails(t, config, c.code), c.parts...)
		})
	}
}

func TestFileOfAnAddressIsNamed(t *testing.T) {
	c := config(t)
	c.Admin = ""
	c.ConfigFiles = []string{file(t, "gateway.yaml", "listeners:\n  admin: 0.0.0.0:8500\n  https: :8443\n")}
	has(t, fails(t, c, 3), "gateway.yaml:2:", "admin", "loopback", "gateway.yaml:3:", "https")
}

// S-71: flag over file over default, and an empty one is none.
func TestFlagWinsOverFile(t *testing.T) {
	c := config(t)
	free := occupiedAndFreed(t)
	c.Admin, c.Node, c.Region = "", "", "west"
	c.ConfigFiles = []string{file(t, "gateway.yaml", "node: {name: from-file, region: east}\nlisteners: {http: \""+occupied(t)+"\", admin: \""+free+"\"}\n")}
	n := start(t, c)
	if n.Addresses()["admin"] != free {
		t.Errorf("addresses %v, want admin from the file: %s", n.Addresses(), free)
	}
	has(t, n.get("admin", "/v1/status").body, `"name":"from-file"`, `"region":"west"`)
}

func TestSocketOfADeadAgentIsReplaced(t *testing.T) {
	c := config(t)
	mkdir(t, c.DataDir)
	path := filepath.Join(c.DataDir, "agent.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	write(t, path+".new", "left by a crash")
	n := start(t, c)
	if r := n.get("socket", "/alive"); r.status != 200 {
		t.Errorf("the socket answers %s", r)
	}
}

func TestFileInTheSocketsPlaceStays(t *testing.T) {
	c := config(t)
	c.Socket = file(t, "precious", "data")
	has(t, fails(t, c, 1), c.Socket, "no socket", "--socket")
	if data, err := os.ReadFile(c.Socket); err != nil || string(data) != "data" {
		t.Errorf("the file is %q: %v", data, err)
	}
}
