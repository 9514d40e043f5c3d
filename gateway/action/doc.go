// Package action is what a route does with a request and its response: the path
// and query that a backend gets, changes of headers, and answers that need no
// backend.
//
//	spec.Route ──New…──► Target, Headers          what is changed on the way
//	           ──New…──► Redirect, Respond        exchange.Handlers that answer
//
// Everything works on the bytes as sent: nothing is decoded and encoded again.
// What New makes never changes, and may be used by many requests at a time.
package action
