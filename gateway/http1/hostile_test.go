package http1_test

import corpus "grapevine/gateway/hostile"

// hostileRequest is one of the corpus.
type hostileRequest struct {
	name, raw, rfc, want string
	reaches              bool
}

// hostile are the requests of the corpus.
func hostile() (rows []hostileRequest) {
	for _, r := range corpus.Requests() {
		rows = append(rows, hostileRequest{r.Name, r.Raw, r.RFC, r.Want, r.Reaches})
	}
	return rows
}
