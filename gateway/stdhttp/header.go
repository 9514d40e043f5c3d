package stdhttp

import (
	"net/http"

	"grapevine/gateway/exchange"
)

// appendHeader adds every line of h, one name's values in their order.
func appendHeader(f exchange.Fields, h http.Header) exchange.Fields {
	for name, values := range h {
		for _, value := range values {
			f = append(f, exchange.Field{Name: []byte(name), Value: []byte(value)})
		}
	}
	return f
}

// copyFields adds every field to h.
func copyFields(h http.Header, f exchange.Fields) {
	for i := range f {
		h.Add(string(f[i].Name), string(f[i].Value))
	}
}

// appendTrailers adds the lines of h that may be forwarded behind a body.
func appendTrailers(f exchange.Fields, h http.Header) exchange.Fields {
	f = appendHeader(f, h)
	f.DelFunc(func(name []byte) bool { return !exchange.MayTrail(name) })
	return f
}

// appendNames adds the names of announced trailers, without values yet.
func appendNames(f exchange.Fields, announced http.Header) exchange.Fields {
	for name := range announced {
		if exchange.MayTrail([]byte(name)) {
			f = append(f, exchange.Field{Name: []byte(name)})
		}
	}
	return f
}
