package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// What a backend receives for a target: the raw bytes, less the prefix (P-19;
// O04, O11).
func TestForwardedTarget(t *testing.T) {
	f := start(t, "")
	to := backend(t, "b")
	f.put("gateway/routes/booking", `{"path":"/booking/{**rest}","pathRemovePrefix":"/booking","backends":["`+to+`"]}`)
	f.put("gateway/routes/events", `{"path":"/{id}/events","pathRemovePrefix":"/{id}/events","backends":["`+to+`"]}`)
	f.put("gateway/routes/plain", route("/plain/{**rest}", to))
	for _, tt := range []struct{ target, want string }{
		{"/booking/health?x=1", "/health?x=1"},
		{"/booking", "/"},
		{"/booking/", "/"},
		{"/booking?x=1", "/?x=1"},
		{"/booking/a%2Fb%20c", "/a%2Fb%20c"},
		{"/booking/a%252Fb%3F%23%25;v=1", "/a%252Fb%3F%23%25;v=1"},
		{"/%62ooking/x", "/x"},
		{"/booking//x", "/x"},
		{"/plain/../booking/x", "/x"},
		{"/1/events", "/"},
		{"/2/events", "/"},
		{"/plain/?a=%zz&b=1;admin=1", "/plain/?a=%zz&b=1;admin=1"},
		{"/plain//a/./b/../c/", "/plain/a/c/"},
		{"/plain/%7Euser", "/plain/%7Euser"},
		{"http://gateway.test/plain/abs?q", "/plain/abs?q"},
	} {
		if got := f.get(tt.target).seen(t).Target; got != tt.want {
			t.Errorf("GET %s: the backend got %s; want %s", tt.target, got, tt.want)
		}
	}
}

func TestRefusedTargets(t *testing.T) {
	f := start(t, "")
	to := backend(t, "b")
	f.put("gateway/routes/all", route("/{**rest}", to))
	f.put("gateway/routes/admin", route("/admin/{**rest}", to))
	for _, target := range []string{"/..", "/a/../..", `/a\b`, "/a%5Cb", "/a%00", "/x/..;/admin", "/x/..%2fadmin", "/admin%2fx", "/%2e%2e/x"} {
		f.get(target).problem(t, 400, "bad_path")
	}
	if got := f.get("/other%2fx").seen(t).Target; got != "/other%2fx" {
		t.Errorf("an encoded slash within one route came as %s", got)
	}
}

// The client's Connection header can't remove what the gateway says (O19), and
// nothing that ends at this hop goes on.
func TestHopByHop(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/{**rest}", backend(t, "b")))
	header := f.raw("GET / HTTP/1.1\nHost: gateway.test\nConnection: close, X-Forwarded-Host, X-Forwarded-Proto, X-Real-Ip, X-Correlation-ID, X-A\n" +
		"X-A: 1\nX-B: 2\nKeep-Alive: timeout=5\nProxy-Authorization: x\nTE: trailers, deflate\nUpgrade: h2c\nHTTP2-Settings: AAA\n\n").seen(t).Header
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For", "X-Forwarded-Port", "X-Real-Ip", "X-Correlation-Id", "X-B"} {
		if header.Get(name) == "" {
			t.Errorf("the backend did not get %s: %v", name, header)
		}
	}
	for _, name := range []string{"X-A", "Connection", "Keep-Alive", "Proxy-Authorization", "Upgrade", "Http2-Settings"} {
		if header.Get(name) != "" {
			t.Errorf("the backend got %s: %s", name, header.Get(name))
		}
	}
	if got := header["Te"]; !slices.Equal(got, []string{"trailers"}) {
		t.Errorf("TE = %v; want trailers", got)
	}
}

func TestResponseHopByHop(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/{**rest}", serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "X-Internal")
		w.Header().Set("X-Internal", "1")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("X-Kept", "1")
	})))
	got := f.get("/").Header
	if got.Get("X-Internal") != "" || got.Get("Keep-Alive") != "" || got.Get("X-Kept") != "1" {
		t.Errorf("the client got %v", got)
	}
}

func TestForwardedFromStranger(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/{**rest}", backend(t, "b")))
	header := f.get("/", "Host: Shop.test:8443", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil", "X-Real-IP: 1.2.3.4",
		"Forwarded: for=1.2.3.4", "X_Forwarded_For: 1.2.3.4", "X-Forwarded_Proto: https", "X_Correlation_ID: evil").seen(t).Header
	want := map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "Shop.test:8443", "X-Forwarded-Port": "8443",
	}
	for name, value := range want {
		if got := header.Values(name); !slices.Equal(got, []string{value}) {
			t.Errorf("%s = %v; want %s", name, got, value)
		}
	}
	for name := range header {
		if strings.Contains(name, "_") || name == "Forwarded" {
			t.Errorf("the backend got %s", name)
		}
	}
}

func TestForwardedFromTrustedProxy(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/{**rest}", backend(t, "b")))
	f.put("gateway/config/headers", `{"trustedProxies":["loopback","10.0.0.0/8"]}`)
	header := f.get("/", "X-Forwarded-For: 6.6.6.6, 1.2.3.4, 10.0.0.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.test").seen(t).Header
	want := map[string]string{
		"X-Forwarded-For": "6.6.6.6, 1.2.3.4, 10.0.0.7, 127.0.0.1", "X-Real-Ip": "1.2.3.4", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "shop.test",
	}
	for name, value := range want {
		if got := header.Get(name); got != value {
			t.Errorf("%s = %s; want %s", name, got, value)
		}
	}
}

func TestCorrelation(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/{**rest}", serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Correlation-ID", "the-backends-own")
		w.Header().Set("X-Got", r.Header.Get("X-Correlation-ID"))
	})))
	trace := "0af7651916cd43dd8448eb211c80319c"
	for _, tt := range []struct{ name, field, want string }{
		{"sent", "X-Correlation-ID: order/7:a.b_c-d", "order/7:a.b_c-d"},
		{"trace", "traceparent: 00-" + trace + "-b7ad6b7169203331-01", trace},
		{"sent before trace", "X-Correlation-ID: mine\ntraceparent: 00-" + trace + "-b7ad6b7169203331-01", "mine"},
		{"zero trace", "traceparent: 00-00000000000000000000000000000000-b7ad6b7169203331-01", ""},
		{"bad byte", "X-Correlation-ID: a b", ""},
		{"too long", "X-Correlation-ID: " + strings.Repeat("a", 129), ""},
		{"none", "X-Other: 1", ""},
	} {
		header := f.get("/", tt.field).Header
		got := header.Values("X-Correlation-ID")
		if len(got) != 1 || got[0] != header.Get("X-Got") {
			t.Errorf("%s: the client got %v, the backend %q", tt.name, got, header.Get("X-Got"))
		} else if tt.want != "" && got[0] != tt.want || tt.want == "" && len(got[0]) != 32 {
			t.Errorf("%s: id %q; want %q", tt.name, got[0], tt.want)
		}
	}
}

func TestRoundRobin(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/{**rest}", backend(t, "a"), backend(t, "b"), backend(t, "c")))
	got := ""
	for range 6 {
		got += f.get("/").seen(t).Backend
	}
	if got != "abcabc" {
		t.Errorf("turns %s; want abcabc", got)
	}
}

// Host, template and method decide as decisions on matching say.
func TestMatching(t *testing.T) {
	f := start(t, "")
	for id, value := range map[string]string{
		"root":     `{"path":"/{**rest}"`,
		"exact":    `{"path":"/{**rest}","hosts":["shop.test"]`,
		"wild":     `{"path":"/{**rest}","hosts":["*.shop.test"]`,
		"longwild": `{"path":"/{**rest}","hosts":["*.eu.shop.test"]`,
		"w":        `{"path":"/{w}/b/c/d"`,
		"ax":       `{"path":"/a/{x}/c/{y}"`,
		"get":      `{"path":"/m","methods":["GET"]`,
		"post":     `{"path":"/n","methods":["POST"],"hosts":["only.test"]`,
		"first":    `{"path":"/{**rest}","hosts":["order.test"],"order":-1`,
		"second":   `{"path":"/a/b","hosts":["order.test"]`,
	} {
		f.put("gateway/routes/"+id, value+`,"backends":["`+backend(t, id)+`"]}`)
	}
	for _, tt := range []struct{ host, target, want string }{
		{"other.test", "/x", "root"},
		{"shop.test", "/x", "exact"},
		{"SHOP.test.:80", "/x", "exact"},
		{"a.shop.test", "/x", "wild"},
		{"a.b.shop.test", "/x", "wild"},
		{"a.eu.shop.test", "/x", "longwild"},
		{"x.test", "/a/b/c/d", "w"},
		{"x.test", "/a/b/c/e", "ax"},
		{"x.test", "/a/b/c/d/", "w"},
		{"x.test", "/m", "get"},
		{"order.test", "/a/b", "first"},
	} {
		if got := f.get(tt.target, "Host: "+tt.host).seen(t).Backend; got != tt.want {
			t.Errorf("%s%s went to %s; want %s", tt.host, tt.target, got, tt.want)
		}
	}
	if got := f.ask("POST", "/m", "Content-Length: 0").seen(t).Backend; got != "root" {
		t.Errorf("POST /m went to %s; want the next candidate, root", got)
	}
	f.delete("gateway/routes/root")
	refused := f.ask("DELETE", "/m")
	refused.problem(t, 405, "method_not_allowed")
	if refused.Header.Get("Allow") != "GET" {
		t.Errorf("Allow = %q; want GET", refused.Header.Get("Allow"))
	}
	f.get("/nowhere").problem(t, 404, "no_route")
}

// A route that leads back to the gateway ends after a few hops, not when the
// connections do.
func TestLoop(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/loop", route("/loop", "http://"+f.address))
	f.get("/loop").problem(t, 508, "loop_detected")
	f.metric(t, `grapevine_requests_total{class="5xx",route="loop"}`, 5)
	f.put("gateway/routes/r", route("/r", backend(t, "b")))
	if got := f.get("/r", "Via: 1.0 fred, 1.1 proxy").seen(t).Header["Via"]; !slices.Equal(got, []string{"1.0 fred, 1.1 proxy, 1.1 grapevine"}) {
		t.Errorf("Via = %v", got)
	}
}

func TestMethodsOfTheServerItself(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/{**rest}", backend(t, "b")))
	f.ask("CONNECT", "/r").problem(t, 501, "method_not_supported")
	if got := f.ask("OPTIONS", "*"); got.StatusCode != 200 && got.StatusCode != 204 {
		t.Errorf("OPTIONS *: %d %s", got.StatusCode, got.body)
	}
}

// A section of the operator's that can't be read trusts nobody, and does not let
// the file's trust show through.
func TestBadTrustTrustsNobody(t *testing.T) {
	f := start(t, "config: {headers: {trustAllProxies: true}}")
	f.put("gateway/routes/r", route("/{**rest}", backend(t, "b")))
	realIP := func() string { return f.get("/", "X-Forwarded-For: 6.6.6.6").seen(t).Header.Get("X-Real-Ip") }
	if got := realIP(); got != "6.6.6.6" {
		t.Errorf("with the file's trust: %s", got)
	}
	f.put("gateway/config/headers", `{"trustedProxies":["nonsense"]}`)
	if got := realIP(); got != "127.0.0.1" {
		t.Errorf("with a bad section: %s; want the peer", got)
	}
	f.delete("gateway/config/headers")
	if got := realIP(); got != "6.6.6.6" {
		t.Errorf("after the section went: %s", got)
	}
}
