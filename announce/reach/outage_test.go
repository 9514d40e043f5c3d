package reach

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOutagesAreToldOnce plays connections: "+" is one that was made, "-" one that was lost, "." a
// time in which nothing happens.
func TestOutagesAreToldOnce(t *testing.T) {
	for play, want := range map[string]string{
		"+":          "made 0",
		"+-+":        "made 0, lost 0, made 0",
		"---+":       "lost 0, made 2",
		"+-+-+-+":    "made 0, lost 0, made 0",
		"+-+-+-+.-+": "made 0, lost 0, made 0, lost 0, made 0",
		"+-.--.-+":   "made 0, lost 0, made 3",
		"+-+-.+":     "made 0, lost 0, made 0",
		"+-+--.-+":   "made 0, lost 0, made 0, lost 2, made 0",
	} {
		synctest.Test(t, func(t *testing.T) {
			var o Outage
			var said []string
			for _, what := range play {
				switch what {
				case '.':
					<-time.After(Quiet)
				case '+':
					if n, tell := o.Over(); tell {
						said = append(said, fmt.Sprint("made ", n))
					}
				case '-':
					if n, tell := o.Lost(); tell {
						said = append(said, fmt.Sprint("lost ", n))
					}
				}
			}
			if got := strings.Join(said, ", "); got != want {
				t.Errorf("%s: %s, want %s", play, got, want)
			}
		})
	}
}
