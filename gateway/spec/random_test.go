package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// random makes a valid value of the type of example: every field may be there
// or not, within its range and syntax, and then what depends on each other is
// settled.
func random(t *rapid.T, example any) any {
	v := reflect.New(reflect.TypeOf(example))
	randomStruct(t, v.Elem())
	return v.Interface()
}

func randomStruct(t *rapid.T, v reflect.Value) {
	for _, f := range plans[v.Type()].fields {
		if f.required || rapid.IntRange(0, 2).Draw(t, f.name+"?") == 0 {
			randomValue(t, v.FieldByIndex(f.index), f)
		}
	}
	if notes := v.FieldByName("Annotations"); notes.IsValid() && rapid.Bool().Draw(t, "x?") {
		notes.Set(reflect.ValueOf(rapid.MapOfN(rapid.StringMatching(`x-[a-z]{1,5}`), annotations(), 1, 3).Draw(t, "x")))
	}
	settle(t, v.Addr().Interface())
}

func annotations() *rapid.Generator[json.RawMessage] {
	return rapid.Map(rapid.SampledFrom([]string{`1`, `-2.50`, `"<&>é"`, `true`, `null`, `[]`, `{}`, `{"a":[1,{"b":"c"}]}`}),
		func(s string) json.RawMessage { return json.RawMessage(s) })
}

func randomValue(t *rapid.T, v reflect.Value, f *field) {
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		randomValue(t, v.Elem(), f)
	case isText(v.Type()):
		randomText(t, v, f)
	case v.Kind() == reflect.Struct:
		randomStruct(t, v)
	case v.Kind() == reflect.Slice:
		randomSlice(t, v, f)
	case v.Kind() == reflect.Map:
		randomMap(t, v)
	default:
		randomScalar(t, v, f)
	}
}

// randomSlice has no item twice, as most lists ask for.
func randomSlice(t *rapid.T, v reflect.Value, f *field) {
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	seen := map[string]bool{}
	for range rapid.IntRange(0, 3).Draw(t, "length") {
		item := reflect.New(v.Type().Elem()).Elem()
		randomValue(t, item, f)
		if text := string(Encode(item.Interface())); !seen[text] {
			seen[text] = true
			v.Set(reflect.Append(v, item))
		}
	}
}

// randomMap has no names that differ only in case.
func randomMap(t *rapid.T, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	seen := map[string]bool{}
	for range rapid.IntRange(0, 3).Draw(t, "size") {
		name, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		randomValue(t, name, &field{})
		randomValue(t, value, &field{})
		if folded := strings.ToLower(name.String()); folded != "" && !seen[folded] {
			seen[folded] = true
			v.SetMapIndex(name, value)
		}
	}
}

func randomScalar(t *rapid.T, v reflect.Value, f *field) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(randomString(f).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "truth"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64Range(f.bounds.leastAt, max(f.bounds.mostAt, 1)).Draw(t, "number"))
	default:
		v.SetInt(randomInt(f.bounds).Draw(t, "count"))
	}
}

func randomString(f *field) *rapid.Generator[string] {
	if f.enum != nil {
		return rapid.SampledFrom(f.enum)
	}
	least := 0
	if f.required {
		least = 1
	}
	return rapid.StringN(least, 8, -1)
}

func randomInt(b bounds) *rapid.Generator[int64] {
	least, most := int64(b.leastAt), int64(math.MaxInt64)
	if b.most != "" {
		most = int64(b.mostAt)
	}
	return rapid.OneOf(rapid.Int64Range(least, most), rapid.Just(least), rapid.Just(most))
}

// texts are patterns of valid texts, by the type that reads them.
var texts = map[reflect.Type]string{
	reflect.TypeFor[RouteID]():       `[a-z0-9]([a-z0-9._-]{0,5}[a-z0-9])?`,
	reflect.TypeFor[ClusterID]():     `[A-Z0-9]([a-z0-9._-]{0,5}[a-z0-9])?`,
	reflect.TypeFor[DestinationID](): `[A-Z0-9]([a-z0-9._-]{0,5}[a-z0-9])?`,
	reflect.TypeFor[Name]():          `[A-Z0-9]([a-z0-9_-]{0,5}[a-z0-9])?`,
	reflect.TypeFor[Path]():          `(/[a-z%]{0}([a-zé |+~"]{1,5}|%2[Ff]|%41))(/\{[a-z]{1,5}\})?(/\{\*\*?[A-Z]\})?/?`,
	reflect.TypeFor[Prefix]():        `/|(/[a-z][a-z0-9.:@é]{0,5}){1,3}/?`,
	reflect.TypeFor[Regex]():         `\^/[a-z]{1,3}(\(\?P<n>[a-z]\))?\.\*\$?`,
	reflect.TypeFor[Host]():          `(\*\.)?[a-zA-Z]{1,4}(-[a-z0-9])?\.(com|example)\.?|127\.0\.0\.[1-9]|\[::[1-9a-f]\]`,
	reflect.TypeFor[Method]():        `[A-Z]{3,7}`,
	reflect.TypeFor[CIDR]():          `10\.0\.0\.0/8|192\.168\.[1-9]\.[1-9]|fd00::/8|::1`,
	reflect.TypeFor[TrustedProxy]():  `loopback|private|10\.[0-9]\.0\.0/16`,
	reflect.TypeFor[Address]():       `(https?|HTTP)://([a-zA-Z]{1,6}|127\.0\.0\.1|\[::1\])(:[1-9][0-9]{0,3})?/?`,
	reflect.TypeFor[URL]():           `https://[a-z]{1,6}(:[1-9][0-9]{0,3})?(/[a-z]{1,3}){0,2}`,
	reflect.TypeFor[Origin]():        `\*|https?://[a-zA-Z]{1,6}(:[1-9][0-9]{0,3})?`,
	reflect.TypeFor[Target]():        `/([a-z]{1,3}|%2[Ff]|\{[a-z_]{1,3}\})(/\{x\}\{y\})?(\?[a-z=&%]{0}[a-z=&]{0,6})?(#[a-z]{0,2})?|(https?|HTTPS)://[a-zA-Z]{1,6}(:[1-9]{1,4})?(/[a-z]{0,3}(\{a\})?)?(\?a=b)?`,
	reflect.TypeFor[HeaderName]():    `X[-_][A-Za-z0-9]{1,6}`,
	reflect.TypeFor[HeaderValue]():   `[a-z0-9<>&,;=:"\\é]{1,8}`,
	reflect.TypeFor[MediaType]():     `text/(html|plain|\*)(; charset=utf-8)?`,
	reflect.TypeFor[HashOn]():        `ip|path|header:X-[a-z]|cookie:[a-z]|query:[a-z]{1,3}`,
	reflect.TypeFor[TokenHash]():     `[0-9a-fA-F]{64}`,
	reflect.TypeFor[TLSRef]():        `certs:[a-z]{1,5}`,
	reflect.TypeFor[Pin]():           `([0-9A-F]{2}:){31}[0-9a-f]{2}`,
	reflect.TypeFor[RetryOn]():       `connect|reset|timeout|[45][0-9]{2}`,
	reflect.TypeFor[ListenAddress](): `([a-z]{1,5}|\*|127\.0\.0\.1)?:[0-9]{1,4}|http://\*:[0-9]{1,4}`,
	reflect.TypeFor[Status]():        `[1-5][0-9]{2}`,
	reflect.TypeFor[Time]():          `20[0-9]{2}-1[0-2]-[0-2][1-9]T1[0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|\+0[0-9]:30)`,
}

func randomText(t *rapid.T, v reflect.Value, f *field) {
	switch v.Type() {
	case durationType:
		v.SetInt(randomInt(f.bounds).Draw(t, "duration"))
		return
	case reflect.TypeFor[Size]():
		v.SetInt(rapid.Int64Range(0, math.MaxInt64).Draw(t, "size"))
		return
	}
	text := rapid.StringMatching(texts[v.Type()]).Draw(t, v.Type().Name())
	reader := v.Addr().Interface().(interface{ UnmarshalText([]byte) error })
	if err := reader.UnmarshalText([]byte(text)); err != nil {
		t.Fatalf("%s does not read %q: %v", v.Type(), text, err)
	}
}

// settle makes fields agree that depend on each other.
func settle(t *rapid.T, value any) {
	switch v := value.(type) {
	case *Route:
		settleRoute(t, v)
	case *PathPolicy:
		v.Refuse = slices.DeleteFunc(v.Refuse, func(s string) bool { return slices.Contains(v.Allow, s) })
	case *Match:
		*v = Match{Name: "n", Values: []string{v.Name}, Regex: ""}
	case *Retry:
		v.Methods = slices.DeleteFunc(v.Methods, func(m Method) bool { return !slices.Contains(idempotent, m) })
	case *Claim:
		if v.Value != "" {
			v.AllowedValues = nil
		}
	case *Redirect:
		v.Status = rapid.SampledFrom([]int{0, 301, 308}).Draw(t, "status")
	case *Respond:
		v.Status = 404
	case *Rewrite:
		v.To = rapid.StringMatching(`|(/|\$\{0\})[a-z@]{0,3}(%2[Ff]|\$\$|\$\{0\})?(/\$0)?/?`).Draw(t, "to")
	case *Transforms:
		settleTransforms(t, v)
	case *HeaderChanges:
		settleHeaders(v)
	case *CORS:
		v.Credentials = v.Credentials && !slices.Contains(v.Origins, "*")
	case *Cluster:
		if v.HashOn != "" {
			v.LoadBalancing = "hash"
		}
	case *CircuitBreaker:
		v.FailureThreshold = rapid.SampledFrom([]float64{0, 0.1, 0.5, 1, 10}).Draw(t, "threshold")
	case *ActiveHealth:
		v.Timeout = min(v.Timeout, v.Interval)
		v.Host = Host(strings.TrimPrefix(string(v.Host), "*."))
		if v.Path == "" {
			v.Host, v.Status = "", nil
		}
	case *TLS:
		v.AllowSelfSigned = v.AllowSelfSigned && len(v.Pins) > 0
		v.ServerName = Host(strings.TrimPrefix(string(v.ServerName), "*."))
	case *Instance:
		settleInstance(v)
	case *Headers:
		v.TrustAllProxies = v.TrustAllProxies && len(v.TrustedProxies) == 0
	case *ProbePaths:
		*v = ProbePaths{Live: v.Live}
	case *Tenancy:
		v.Domain = "example.com"
	case *Grant:
		v.Paths = []string{"/" + string(v.Token)}
	case *Meta, *Static, *Mirror:
	}
}

func settleTransforms(t *rapid.T, v *Transforms) {
	if v.Request != nil && rapid.Bool().Draw(t, "host?") {
		v.Request.Set = maps.Clone(v.Request.Set)
		if v.Request.Set == nil {
			v.Request.Set = map[HeaderName]HeaderValue{}
		}
		v.Request.Set["Host"] = "b.example:8080"
	}
}

// settleHeaders has no header set twice, and none removed that is set.
func settleHeaders(h *HeaderChanges) {
	set := map[string]bool{}
	maps.DeleteFunc(h.Set, func(name HeaderName, _ HeaderValue) bool {
		twice := set[twin(name)]
		set[twin(name)] = true
		return twice
	})
	h.Remove = slices.DeleteFunc(h.Remove, func(name HeaderName) bool { return set[twin(name)] })
}

func settleRoute(t *rapid.T, r *Route) {
	r.RouteID, r.Type = "", ""
	if r.Path != "" {
		r.PathRegex = ""
	}
	if r.Path == "" && r.PathRegex == "" {
		r.Path = "/"
	}
	r.PathRemovePrefix = Path(Template{r.Path.Template().Segments[:min(1, r.Path.Template().Literals())]}.String())
	if r.PathRegex != "" || r.Rewrite != nil {
		r.PathRemovePrefix, r.PathPrefix = "", ""
	}
	for i := range r.Split {
		r.Split[i].Cluster, r.Split[i].Weight = ClusterID(fmt.Sprint("c", i)), i+1
		for j := range r.Split[i].Cookies {
			r.Split[i].Cookies[j].Name = "n"
		}
	}
	r.AllowAnonymous = r.AllowAnonymous && !r.RequireAuth && r.Auth == nil
	settleTarget(t, r)
	if r.Redirect != nil || r.Respond != nil {
		r.PathRemovePrefix, r.PathPrefix, r.Rewrite, r.Timeout, r.IdleTimeout, r.Mirror, r.Retry, r.Limits = "", "", nil, 0, 0, nil, nil, nil
		if r.Changes != nil {
			r.Changes.Request, r.Changes.Query = nil, nil
		}
	}
}

func settleTarget(t *rapid.T, r *Route) {
	kept := *r
	hides := r.Enabled != nil && !*r.Enabled
	r.Backends, r.Cluster, r.Split, r.Redirect, r.Respond, r.Static = nil, "", nil, nil, nil, nil
	r.SplitOn = ""
	switch rapid.IntRange(0, 6).Draw(t, "target") {
	case 0:
		r.Backends = append(kept.Backends, "http://last:1")
	case 1:
		r.Cluster = "c"
	case 2:
		r.SplitOn = kept.SplitOn
		r.Split = append(kept.Split, Share{Cluster: "last", Weight: 1})
	case 3:
		r.Redirect, r.Type = &Redirect{To: "/x?"}, "redirect"
		for _, s := range r.Path.Template().Segments {
			if s.Kind != Literal {
				r.Redirect.To = Target("https://x.example/y-{" + s.Text + "}")
			}
		}
	case 4:
		r.Respond = &Respond{Status: 404, Body: "gone"}
	case 5:
		r.Static = &Static{Directory: "/srv"}
	default:
		if !hides {
			r.Cluster = "d"
		}
	}
}

func settleInstance(i *Instance) {
	i.RouteID, i.InstanceID, i.PathRemovePrefix = "", "", ""
	i.AllowAnonymous = i.AllowAnonymous && !i.RequireAuth && len(i.Claims) == 0
	i.Tunnel = i.Address == ""
	if !time.Time.IsZero(i.StartedAt.Time) {
		i.StartedAt.Time = i.StartedAt.UTC()
	}
}
