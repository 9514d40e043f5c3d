package spec_test

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"grapevine/gateway/spec"
)

// badInput is a row of testdata/bad.txt: a key and a value on one line, in which
// ⏎ stands for a line break, and below it, indented, each fault.
type badInput struct{ key, value, want string }

func badInputs(t *testing.T) (rows []badInput) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(testdata(t, "bad.txt").Data))
	for lines.Scan() {
		line := lines.Text()
		switch fault, indented := strings.CutPrefix(line, "    "); {
		case line == "" || strings.HasPrefix(line, "#"):
		case indented:
			last := &rows[len(rows)-1]
			last.want = strings.TrimPrefix(last.want+"\n"+fault, "\n")
		default:
			key, value, _ := strings.Cut(line, " ")
			rows = append(rows, badInput{key: key, value: strings.ReplaceAll(value, "⏎", "\n")})
		}
	}
	return rows
}

func TestDecodeRefusesBadInput(t *testing.T) {
	rows := badInputs(t)
	for _, row := range rows {
		t.Run(row.key, func(t *testing.T) {
			_, err := spec.Decode(row.key, []byte(row.value), spec.FormAuto)
			if err == nil || err.Error() != row.want {
				t.Errorf("%s %s\ngot:\n%v\nwant:\n%s", row.key, row.value, err, row.want)
			}
		})
	}
	if len(rows) < 80 {
		t.Errorf("%d rows, want at least 80", len(rows))
	}
}
