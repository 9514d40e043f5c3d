package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	urfave "github.com/urfave/cli/v2"
)

// change makes a request that changes the cluster, with a document as its body unless that is nil, and decodes the
// answer.
func (s *session) change(ctx context.Context, r request, document, answer any) error {
	r.bounded = true
	if document != nil {
		body, err := json.Marshal(document)
		if err != nil {
			return err
		}
		r.body, r.header = body, http.Header{"Content-Type": {"application/json"}}
	}
	return s.agent.fetch(ctx, r, answer)
}

// change is that of a session which it begins.
func (p *program) change(c *urfave.Context, r request, document, answer any) (*session, error) {
	s, err := p.session(c)
	if err != nil {
		return nil, err
	}
	return s, s.change(c.Context, r, document, answer)
}

// segment is a word as one segment of a path.
func segment(word string) string { return url.PathEscape(word) }
