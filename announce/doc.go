// Package announce makes a service known to the gateways for as long as it
// lives, and lets it leave without a failed request. It needs nothing but the
// standard library.
//
//	err := announce.ListenAndServe(ctx, server, announce.Config{
//		Route: "warehouse", Path: "/warehouse/{**catch-all}", PathRemovePrefix: "/warehouse",
//		Address: "http://10.0.0.5:8080",
//	})
//
// listens, announces, and on SIGTERM drains before the server stops. Start does
// the announcing alone.
//
// An announcement is a connection to the agent on this host. While it is open,
// every gateway of the cluster serves the instance; when it ends, because the
// service stopped, crashed or closed it, the instance is gone everywhere.
//
//	         accepted            Drain, Close, SIGTERM,
//	                             or an operator
//	connecting ───► announced ─────────────────► draining ───► drained
//	    ▲               │                            │             │
//	    └── lost ◄──────┴────────────────────────────┘             ▼
//	                    └── superseded, withdrawn, refused ───► ended
//
// An agent that restarts, or is not there yet, is no error: the Announcer tries
// again with growing, random pauses, and announces the same instance id, so
// that the gateways don't notice. One goroutine of its own does all of that, so
// that there is never more than one attempt at a time. It ends with Close.
//
// An Announcer may be used by any number of goroutines.
package announce
