package cli

import (
	"fmt"
	"strings"
	"time"
)

// shortRev is a revision as people read it: within its epoch.
func shortRev(rev string) string {
	_, number, ok := strings.Cut(rev, ".")
	if !ok {
		return rev
	}
	return number
}

// age is the time since then in its two largest units at most. A clock that is behind makes it zero.
func age(then, now time.Time) string {
	if then.IsZero() {
		return "-"
	}
	return lasting(now.Sub(then))
}

// clock is a time as RFC 3339 has it, "-" for none.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// lasting is a duration in its two largest units at most; none is below zero.
func lasting(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// span is a time of milliseconds, below a second in full and above it to a tenth.
func span(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms/100%10 == 0:
		return fmt.Sprintf("%d s", ms/1000)
	}
	return fmt.Sprintf("%d.%d s", ms/1000, ms/100%10)
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// when is a text where something holds, else nothing.
func when(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}
