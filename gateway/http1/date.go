package http1

import (
	"net/http"
	"time"
)

var dateName = []byte("Date")

// tellDate makes the value of Date, once a second. s.mu is held.
func (s *Server) tellDate(now time.Time) {
	if second := now.Unix(); second != s.dated {
		s.dated = second
		date := now.UTC().AppendFormat(nil, http.TimeFormat)
		s.date.Store(&date)
	}
}
