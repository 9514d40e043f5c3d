package api_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// raw sends bytes as they are, and returns the answer.
func (c *client) raw(request string) reply {
	c.t.Helper()
	conn, err := net.Dial(c.addr.Network(), c.addr.String())
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, request); err != nil {
		c.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.t.Fatalf("%.100q: %v", request, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(body)}
}

// put is a raw PUT with a JSON body of 1.
func put(path string, headers ...string) string {
	return "PUT " + path + " HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\nContent-Length: 1\r\n\r\n1"
}

const (
	atHome = "Host: 127.0.0.1"
	asJSON = "Content-Type: application/json"
)

func TestAttacksOnTheTCPDoor(t *testing.T) {
	n := startNode(t)
	for name, attack := range map[string]struct {
		request string
		status  int
		code    string
	}{
		"rebound name":            {put("/v1/kv/app/x", "Host: evil.example:8500", asJSON), 403, "forbidden_host"},
		"name like loopback":      {put("/v1/kv/app/x", "Host: 127.0.0.1.evil.example", asJSON), 403, "forbidden_host"},
		"name below localhost":    {put("/v1/kv/app/x", "Host: evil.localhost", asJSON), 403, "forbidden_host"},
		"short address":           {put("/v1/kv/app/x", "Host: 127.1", asJSON), 403, "forbidden_host"},
		"address as a number":     {put("/v1/kv/app/x", "Host: 2130706433", asJSON), 403, "forbidden_host"},
		"any address":             {put("/v1/kv/app/x", "Host: 0.0.0.0:8500", asJSON), 403, "forbidden_host"},
		"own address elsewhere":   {put("/v1/kv/app/x", "Host: 192.168.1.7:8500", asJSON), 403, "forbidden_host"},
		"empty host":              {put("/v1/kv/app/x", "Host: ", asJSON), 403, "forbidden_host"},
		"no host":                 {"PUT /v1/kv/app/x HTTP/1.0\r\n" + asJSON + "\r\nContent-Length: 1\r\n\r\n1", 403, "forbidden_host"},
		"host in the target":      {put("http://evil.example/v1/kv/app/x", atHome, asJSON), 403, "forbidden_host"},
		"read by a rebound name":  {"GET /v1/kv HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "forbidden_host"},
		"probe by a rebound name": {"GET /alive HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "forbidden_host"},

		"foreign origin":        {put("/v1/kv/app/x", atHome, asJSON, "Origin: http://evil.example"), 403, "forbidden_origin"},
		"opaque origin":         {put("/v1/kv/app/x", atHome, asJSON, "Origin: null"), 403, "forbidden_origin"},
		"other port":            {put("/v1/kv/app/x", "Host: 127.0.0.1:8500", asJSON, "Origin: http://127.0.0.1:3000"), 403, "forbidden_origin"},
		"other scheme":          {put("/v1/kv/app/x", atHome, asJSON, "Origin: https://127.0.0.1"), 403, "forbidden_origin"},
		"second origin":         {put("/v1/kv/app/x", atHome, asJSON, "Origin: http://127.0.0.1", "Origin: http://evil.example"), 403, "forbidden_origin"},
		"origin on a read":      {"GET /v1/kv HTTP/1.1\r\n" + atHome + "\r\nOrigin: http://evil.example\r\n\r\n", 403, "forbidden_origin"},
		"preflight":             {"OPTIONS /v1/kv/app/x HTTP/1.1\r\n" + atHome + "\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: PUT\r\n\r\n", 403, "forbidden_origin"},
		"cross-site":            {put("/v1/kv/app/x", atHome, asJSON, "Sec-Fetch-Site: cross-site"), 403, "forbidden_origin"},
		"same site, other port": {put("/v1/kv/app/x", atHome, asJSON, "Sec-Fetch-Site: same-site"), 403, "forbidden_origin"},
		"unknown site":          {put("/v1/kv/app/x", atHome, asJSON, "Sec-Fetch-Site: "), 403, "forbidden_origin"},

		"text":                {put("/v1/kv/app/x", atHome, "Content-Type: text/plain"), 415, "unsupported_content_type"},
		"form":                {put("/v1/kv/app/x", atHome, "Content-Type: application/x-www-form-urlencoded"), 415, "unsupported_content_type"},
		"upload":              {put("/v1/kv/app/x", atHome, "Content-Type: multipart/form-data; boundary=x"), 415, "unsupported_content_type"},
		"no type":             {put("/v1/kv/app/x", atHome), 415, "unsupported_content_type"},
		"type hidden":         {put("/v1/kv/app/x", atHome, "Content-Type: text/plain; application/json"), 415, "unsupported_content_type"},
		"charset":             {put("/v1/kv/app/x", atHome, asJSON+"; charset=utf-7"), 415, "unsupported_content_type"},
		"bytes under gateway": {put("/v1/kv/gateway/routes/x", atHome, "Content-Type: application/octet-stream"), 415, "unsupported_content_type"},
		"text post":           {"POST /v1/txn HTTP/1.1\r\n" + atHome + "\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415, "unsupported_content_type"},

		"dots":            {put("/v1/kv/app/../x", atHome, asJSON), 400, "bad_key"},
		"coded dots":      {put("/v1/kv/app/%2e%2e/x", atHome, asJSON), 400, "bad_key"},
		"dots over kv":    {put("/v1/kv/../status", atHome, asJSON), 400, "bad_key"},
		"one dot":         {put("/v1/kv/app/./x", atHome, asJSON), 400, "bad_key"},
		"nul":             {put("/v1/kv/app/x%00", atHome, asJSON), 400, "bad_key"},
		"newline":         {put("/v1/kv/app/x%0ay", atHome, asJSON), 400, "bad_key"},
		"10 KB":           {put("/v1/kv/"+strings.Repeat("a", 10<<10), atHome, asJSON), 400, "bad_key"},
		"empty key":       {put("/v1/kv/", atHome, asJSON), 400, "bad_key"},
		"double slash":    {put("/v1/kv//x", atHome, asJSON), 400, "bad_key"},
		"backslash":       {put(`/v1/kv/app%5cx`, atHome, asJSON), 400, "bad_key"},
		"not UTF-8":       {put("/v1/kv/app/%ff", atHome, asJSON), 400, "bad_key"},
		"reserved":        {put("/v1/kv/_meta/cluster", atHome, asJSON), 400, "bad_key"},
		"other's session": {put("/v1/kv/gateway/instances/booking/1", atHome, asJSON), 400, "bad_key"},

		"100 MB":     {"PUT /v1/kv/app/x HTTP/1.1\r\n" + atHome + "\r\n" + asJSON + "\r\nContent-Length: 104857600\r\n\r\n1", 413, "too_large"},
		"100 MB txn": {"POST /v1/txn HTTP/1.1\r\n" + atHome + "\r\n" + asJSON + "\r\nContent-Length: 104857600\r\n\r\n1", 413, "too_large"},

		"other method":    {"TRACE /v1/kv/app/x HTTP/1.1\r\n" + atHome + "\r\n\r\n", 405, "method_not_allowed"},
		"post to kv":      {"POST /v1/kv/app/x HTTP/1.1\r\n" + atHome + "\r\n" + asJSON + "\r\nContent-Length: 1\r\n\r\n1", 405, "method_not_allowed"},
		"other path":      {put("/v1/admin", atHome, asJSON), 404, "not_found"},
		"double dispatch": {put("//v1/kv/app/x", atHome, asJSON), 404, "not_found"},
		"other case":      {put("/V1/kv/app/x", atHome, asJSON), 404, "not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			p := problem(t, n.tcp.raw(attack.request), attack.status, attack.code)
			if !p.NothingWritten || p.Detail == "" {
				t.Errorf("problem %+v", p)
			}
		})
	}
	if rev := n.store.View().Rev(); rev.Rev != 0 {
		t.Errorf("revision %s: an attack wrote", rev)
	}
}

func TestHonestRequestsPassTheTCPDoor(t *testing.T) {
	n := startNode(t)
	for _, headers := range [][]string{
		{atHome, asJSON},
		{"Host: localhost:8500", asJSON},
		{"Host: LOCALHOST", asJSON},
		{"Host: [::1]:8500", asJSON},
		{"Host: [::ffff:127.0.0.1]", asJSON},
		{"Host: 127.8.9.10:1", asJSON + "; charset=UTF-8"},
		{"Host: localhost:8500", asJSON, "Origin: http://localhost:8500", "Sec-Fetch-Site: same-origin"},
		{atHome, asJSON, "Sec-Fetch-Site: none"},
	} {
		if r := n.tcp.raw(put("/v1/kv/app/x", headers...)); r.status != 200 {
			t.Errorf("%q: %d %s", headers, r.status, r.body)
		}
	}
}

// Whoever the file mode lets in may come as they like: curl -d names a form's type and no atHome of ours.
func TestSocketTrustsItsFileMode(t *testing.T) {
	n := startNode(t)
	for _, headers := range [][]string{
		{"Host: evil.example"},
		{"Host: ", "Content-Type: application/x-www-form-urlencoded"},
		{"Host: agent", "Origin: http://evil.example", "Sec-Fetch-Site: cross-site"},
	} {
		if r := n.socket.raw(put("/v1/kv/app/x", headers...)); r.status != 200 {
			t.Errorf("%q: %d %s", headers, r.status, r.body)
		}
	}
}

// A body without a declared length is cut at the limit, and not gathered.
func TestEndlessBodyIsCut(t *testing.T) {
	n := startNode(t)
	body, feed := io.Pipe()
	go func() {
		piece := strings.Repeat("a", 64<<10)
		for {
			if _, err := io.WriteString(feed, piece); err != nil {
				return
			}
		}
	}()
	defer body.Close()
	request, err := http.NewRequestWithContext(t.Context(), "PUT", n.tcp.base+"/v1/kv/app/x", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	response, err := n.tcp.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 413 {
		t.Errorf("status %d", response.StatusCode)
	}
}

func TestDangerousBackendsAreRefused(t *testing.T) {
	n := startNode(t)
	for _, backend := range []string{"file:///etc/passwd", "http://user:secret@10.0.0.1", "gopher://10.0.0.1", "//10.0.0.1", "10.0.0.1:80/../x"} {
		p := problem(t, n.tcp.do("PUT", "/v1/kv/gateway/routes/x", `{"path":"/x","backends":["`+backend+`"]}`), 422, "invalid")
		if len(p.Faults) != 1 || p.Faults[0].Field != "backends[0]" {
			t.Errorf("%s: %+v", backend, p)
		}
	}
}

func TestMethodsAreNamed(t *testing.T) {
	n := startNode(t)
	for path, allow := range map[string]string{
		"/v1/kv/app/x": "DELETE, GET, HEAD, PATCH, PUT",
		"/v1/kv":       "GET, HEAD",
		"/v1/txn":      "POST",
	} {
		r := n.tcp.do("OPTIONS", path, "")
		problem(t, r, 405, "method_not_allowed")
		if r.header.Get("Allow") != allow {
			t.Errorf("%s allows %q, want %q", path, r.header.Get("Allow"), allow)
		}
	}
}
