package spec

import (
	"flag"
	"os"
	"testing"
)

//go:generate go test -run ^TestReferenceIsCurrent$ -update

var update = flag.Bool("update", false, "write the reference pages anew")

// The schema and the page of keys say what the code says.
func TestReferenceIsCurrent(t *testing.T) {
	for name, content := range map[string][]byte{"schema.json": Schema(), "keys.md": Reference()} {
		path := "../../docs/reference/" + name
		if *update {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(content) {
			t.Errorf("%s is out of date (%v); run make generate", path, err)
		}
	}
}
