// Package stdhttp serves and forwards Exchanges with net/http: Front is a
// http.Handler that makes them, Upstream carries them to one destination over
// an http.Transport.
//
// Both sides stream. A response that breaks off ends the client's connection
// instead of its body, so that it never looks whole.
package stdhttp
