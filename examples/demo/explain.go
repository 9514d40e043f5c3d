package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// explain prints where everything is, and what to try.
func (d *demo) explain() {
	table := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tPROXY\tAPI\tGOSSIP\tPROCESS")
	for _, n := range d.nodes {
		fmt.Fprintf(table, "%s\thttp://%s\thttp://%s\t%s\t%d\n", n.name, n.proxy, n.admin, n.gossip, n.pid())
	}
	table.Flush()
	others := slices.DeleteFunc(slices.Clone(d.nodes), func(n *node) bool { return n == d.leader })
	d.say(`
Backends are at %[1]s. The routes hello and orders lead to them, and each node gets 10 requests a second.
Data and logs are in %[2]s. In another shell, in this folder:

  export AGENT_ADDR=http://%[3]s
  bin/agent members
  curl http://%[4]s/hello/world
  bin/agent config set gateway/routes/shop 'path=/shop/{**catch-all},backends=http://%[5]s' --wait all
  curl -i http://%[6]s/shop/
  kill -9 %[7]d    # %[8]s, which leads: the others serve on, and writes go on within seconds
  bin/agent config set gateway/routes/shop 'path=/shop/{**catch-all},backends=http://%[9]s' --wait all --timeout 30s
  bin/agent status

Enter starts again what was killed. Ctrl-C ends all, and removes %[2]s.
`, strings.Join(d.backends, " and "), folder, others[0].admin, others[1].proxy,
		d.backends[0], others[0].proxy, d.leader.pid(), d.leader.name, d.backends[1])
}
