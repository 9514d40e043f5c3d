package agent

import (
	"log/slog"
	"net/http"
	"time"

	"grapevine/agent/api"
)

const (
	// headTimeout bounds the wait for a request's head once its first byte is there.
	headTimeout = 10 * time.Second
	// idleTimeout bounds the wait for a next request on a connection. It is above the 60 s after which common load
	// balancers give up theirs: whoever closes first must not be the one that is still sent to.
	idleTimeout = 2 * time.Minute
	// maxHead bounds a request's head, line and fields.
	maxHead = 64 << 10
)

// newServer makes the server of one listener.
func newServer(name string, handler http.Handler, logger *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      dismiss(handler),
		Protocols:                    protocols,
		ReadHeaderTimeout:            headTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHead,
		ConnContext:                  api.ConnContext,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(logger.With("listener", name).Handler(), slog.LevelWarn),
	}
}
