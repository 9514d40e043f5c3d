// Command agent is Grapevine: the gateway and every command that works with it.
package main

import (
	"os"

	"grapevine/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
