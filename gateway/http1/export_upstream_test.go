package http1

import "time"

// MaxIdle is how many idle connections an upstream keeps.
const MaxIdle = maxIdle

// Pass makes the sweeper's work for d, at once.
func (u *Upstream) Pass(d time.Duration) {
	u.pool.tick.Add(ticks(d))
	ended, _ := u.pool.expired(nil)
	for _, l := range ended {
		u.pool.drop(l)
	}
}

// Links counts the connections of an upstream, and those of them that are idle.
func (u *Upstream) Links() (all, idle int) {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	return len(u.pool.all), len(u.pool.idle)
}
