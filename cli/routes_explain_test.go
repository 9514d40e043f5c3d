package cli

import (
	"strings"
	"testing"

	"grapevine/gateway"
)

func TestExplanations(t *testing.T) {
	for name, test := range map[string]struct {
		explanation gateway.Explanation
		want        string
	}{
		"forwarded": {
			gateway.Explanation{
				Rev: "1.7", Method: "POST", Host: "api.test", Path: "/shop//x", Match: "/shop/x", Client: "10.0.0.1", Route: "shop",
				Detail: "Of 3 candidates the second is the first whose conditions hold.",
				Candidates: []gateway.Candidate{
					{ID: "beta", Order: -1, Path: "/shop/{**rest}", Source: "operator", State: "failed", Why: `header X-Beta: is not there`},
					{ID: "shop", Host: "*.test", Path: "/shop/{**rest}", Source: "static", State: "taken", Why: "its host is named"},
					{ID: "any", Path: "~ /(shop|market)/[a-z]+/[0-9]{1,10}/(red|green|blue)/x", Source: "static", State: "later", Why: "it names no host"},
				},
				Forward: &gateway.Forward{
					Cluster: "shop", Balancing: "leastRequest", Method: "POST", Target: "/x?a=1", Host: "api.test", Fields: []string{"X-A: 1", "X-B: 2"},
					Destinations: []gateway.ForwardDestination{
						{Address: "http://h:80", Weight: 5, Health: "healthy", Use: "yes"},
						{Address: "http://long.host.test:8080", Weight: 1, InFlight: 12, Health: "unhealthy", Why: "503", Region: "eu", Use: "last"},
					},
					Chosen: "http://h:80", Breaker: &gateway.ForwardBreaker{State: "open", Successes: 3, Failures: 7, OpenForMs: 2500},
				},
			},
			"POST /shop//x, host api.test: taken by route shop\n" +
				"Of 3 candidates the second is the first whose conditions hold.\n" +
				"matched as /shop/x\n" +
				"\n" +
				"#  ID    ORDER  HOST    PATH            SOURCE    STATE   WHY\n" +
				"1  beta  -1     -       /shop/{**rest}  operator  failed  header X-Beta: is not there\n" +
				"2  shop  0      *.test  /shop/{**rest}  static    taken   its host is named\n" +
				"3  any   0      -       ~ /(shop|market)/[a-z]+/[0-9]{1,10}/(red|green|blue)/x  static    later   it names no host\n" +
				"\n" +
				"forwarded  POST /x?a=1\n" +
				"host       api.test\n" +
				"fields     X-A: 1\n" +
				"           X-B: 2\n" +
				"cluster    shop, leastRequest\n" +
				"breaker    open, 7 of 10 calls failed, open for 2.5 s\n" +
				"\n" +
				"DESTINATION                 WEIGHT  IN FLIGHT  HEALTH                 USE\n" +
				"http://h:80                 5       0          healthy                next\n" +
				"http://long.host.test:8080  1       12         unhealthy, in eu: 503  last\n",
		},
		"answered by the route": {
			gateway.Explanation{
				Method: "GET", Path: "/old", Match: "/old", Route: "old", Status: 308, Detail: "Redirects to /new.",
				Candidates: []gateway.Candidate{{ID: "old", Path: "/old", Source: "static", State: "taken", Why: "it is the only one"}},
			},
			"GET /old, any host: taken by route old, which answers 308\n" +
				"Redirects to /new.\n" +
				"\n" +
				"#  ID   ORDER  HOST  PATH  SOURCE  STATE  WHY\n" +
				"1  old  0      -     /old  static  taken  it is the only one\n",
		},
		"refused": {
			gateway.Explanation{Method: "GET", Path: "/a\x1b[31m", Status: 400, Code: "bad_path", Detail: `path "/a\x1b[31m": control character 0x1b`},
			"GET /a\\x1b[31m, any host: 400 bad_path\n" +
				"path \"/a\\x1b[31m\": control character 0x1b\n",
		},
	} {
		var b strings.Builder
		if err := writeExplanation(&b, test.explanation, style{}); err != nil || b.String() != test.want {
			t.Errorf("%s: %v, got\n%swant\n%s", name, err, b.String(), test.want)
		}
	}
	var b strings.Builder
	states := []gateway.Candidate{{State: "taken"}, {State: "failed"}, {State: "later"}}
	if err := candidateTable(states, style{colour: true}).write(&b); err != nil || strings.Count(b.String(), "\x1b[0m\n") != 3 {
		t.Errorf("in colour: %v\n%q", err, b.String())
	}
}

func TestRoutesExplain(t *testing.T) {
	n := startNode(t)
	n.must("config set gateway/routes/booking " + bookingRoute)
	r := n.must("routes explain POST http://api.test/booking/42?x=1 -H 'X-Beta: 1' --client 10.0.0.7")
	for _, want := range []string{"POST /booking/42, host api.test: taken by route booking\n", "\n1  booking  ", "\nforwarded  POST /42?x=1\n", "X-Beta: 1\n"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the explanation lacks %q:\n%s", want, r.stdout)
		}
	}
	r = n.must("routes explain /booking/42 -o json")
	for _, want := range []string{`"method": "GET"`, `"route": "booking"`, `"destinations": [`} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("-o json lacks %s:\n%s", want, r.stdout)
		}
	}
	line := "routes explain /booking/42 -o name"
	n.must(line).check(t, line, 0, "booking\n", "")
}

// The explanation is the same; the exit code tells a script.
func TestExplainingWhatNoRouteTakes(t *testing.T) {
	n := startNode(t)
	r := n.call("routes explain http://api.test/x")
	if r.exit != exitNotFound || !strings.HasPrefix(r.stdout, "GET /x, host api.test: 404 no_route\n") ||
		r.stderr != "error: GET api.test/x: no route takes it\n" {
		t.Errorf("%+v", r)
	}
	if r := n.call("routes explain /x -o json"); r.exit != exitNotFound || !strings.Contains(r.stdout, `"code": "no_route"`) {
		t.Errorf("%+v", r)
	}
	line := "routes explain /x -o name"
	n.call(line).check(t, line, exitNotFound, "", "error: GET /x: no route takes it\n")
}

func TestRoutesLint(t *testing.T) {
	n := startNode(t)
	line := "routes lint"
	n.must(line).check(t, line, 0, "", "no notices at revision 0\n")
	line = "routes lint -o json"
	n.must(line).check(t, line, 0, "[]\n", "")
	n.must("config set gateway/routes/booking " + bookingRoute)
	n.must("config set gateway/routes/late " + bookingRoute)
	r := n.must("routes lint")
	if !strings.HasPrefix(r.stdout, "gateway/routes/late: ") || !strings.Contains(r.stdout, "booking") || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	if r := n.must("routes lint -o name"); !strings.Contains(r.stdout, "gateway/routes/late\n") {
		t.Errorf("%+v", r)
	}
	if r := n.must("routes list"); !strings.Contains(r.stdout, "shadowed: ") {
		t.Errorf("a shadowed route is not listed:\n%s", r.stdout)
	}
}
