package cli

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"grapevine/gateway/spec"
)

func TestAge(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		ago  time.Duration
		want string
	}{
		{-time.Hour, "0s"},
		{0, "0s"},
		{59*time.Second + 999*time.Millisecond, "59s"},
		{time.Minute, "1m00s"},
		{time.Hour - time.Second, "59m59s"},
		{time.Hour + 2*time.Minute, "1h02m"},
		{25 * time.Hour, "1d01h"},
		{400 * 24 * time.Hour, "400d00h"},
	} {
		if got := age(now.Add(-test.ago), now); got != test.want {
			t.Errorf("%s ago: %s, want %s", test.ago, got, test.want)
		}
	}
}

func TestNearMatches(t *testing.T) {
	candidates := []string{"--dry-run", "--cas", "--create", "--wait", "--addr", "-m"}
	for _, test := range []struct{ word, want string }{
		{"--dryrun", ` (did you mean "--dry-run"?)`},
		{"-dry-run", ` (did you mean "--dry-run"?)`},
		{"--dry", ` (did you mean "--dry-run"?)`},
		{"--wiat", ` (did you mean "--wait"?)`},
		{"--crate", ` (did you mean "--create"?)`},
		{"--nothing-like-it", ""},
		{"", ""},
	} {
		if got := spec.DidYouMean(test.word, slices.Values(candidates)); got != test.want {
			t.Errorf("%q:%s, want%s", test.word, got, test.want)
		}
	}
}

func TestTableIsAlignedAndHarmless(t *testing.T) {
	var b bytes.Buffer
	rows := table{head: []string{"ID", "VALUE", "BY"}, rows: [][]string{
		{"longest", "übergroß", "x"},
		{"b", "", ""},
		{"c", "\x1b[31mred\n\u202e", "y"},
	}}
	if err := rows.write(&b); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"ID       VALUE                BY\n" +
		"longest  übergroß             x\n" +
		"b\n" +
		`c        \x1b[31mred\n\u202e  y` + "\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
