//go:build ignore

// Command generate writes the pages of docs/reference that follow from the
// shapes of package spec.
package main

import (
	"log"
	"os"

	"grapevine/gateway/spec"
)

func main() {
	for name, content := range map[string][]byte{
		"schema.json": spec.Schema(),
		"keys.md":     spec.Reference(),
	} {
		if err := os.WriteFile("../../docs/reference/"+name, content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
