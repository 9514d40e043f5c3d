package gossip

import (
	"sync/atomic"
	"testing"
	"time"

	"grapevine/kv"
)

// A leader commits between the looks at whether it leads and at what it has, and another
// node has the commit sooner. That is no node ahead of its leader: see consider.
func TestCommitBetweenTwoLooksIsNoAlarm(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		var meanwhile atomic.Pointer[func()]
		c.change = func(n *node, o *Options) {
			o.Leads = func() bool {
				if do := meanwhile.Swap(nil); do != nil {
					(*do)()
				}
				return n.leads.Load()
			}
		}
		c.start(t, 1)
		leader := c.leader()
		stream := leader.peer.o.Streams[0]
		leader.write(t, kv.Put("a", nil))
		<-time.After(time.Second) // nobody else looks just then
		theirs := leader.resolve(t, kv.Put("a", []byte("b")))
		commit := func() {
			if err := leader.store.Merge(theirs); err != nil {
				t.Error(err)
			}
		}
		meanwhile.Store(&commit)
		head := theirs.Head(stream.Head().EpochID)
		if v := leader.peer.consider(Member{ID: "onenode01", boot: "1", Role: Edge}, stream, head, false); v != nothing {
			t.Errorf("verdict %v, want nothing", v)
		}
		if alarms := leader.peer.Alarms(); len(alarms) != 0 {
			t.Errorf("alarms: %+v", alarms)
		}
	})
}
