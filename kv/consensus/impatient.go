package consensus

import (
	"io"
	"time"
)

// impatient reads what another node sends, and gives up on it when nothing comes for
// rpcTimeout: who takes a snapshot answers nobody else meanwhile, and would wait as
// long as the network does for a leader that has lost its power.
type impatient struct {
	from   io.Reader
	giveUp *time.Timer
}

// newImpatient calls stop, which has to make reading from fail.
func newImpatient(from io.Reader, stop func()) *impatient {
	timer := time.AfterFunc(time.Hour, stop)
	timer.Stop()
	return &impatient{from, timer}
}

func (i *impatient) Read(b []byte) (int, error) {
	i.giveUp.Reset(rpcTimeout)
	defer i.giveUp.Stop()
	return i.from.Read(b)
}
