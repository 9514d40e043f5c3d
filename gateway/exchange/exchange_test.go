package exchange

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// What was kept stays as it was while more is kept, also when the memory grows.
func TestScratch(t *testing.T) {
	var x Exchange
	x.Reset(context.Background())
	var kept [][]byte
	var want []string
	for i := range 200 {
		text := strings.Repeat(string(rune('a'+i%26)), i%40)
		kept = append(kept, x.Keep(append(x.Scratch(), text...)))
		want = append(want, text)
	}
	for i := range kept {
		if string(kept[i]) != want[i] {
			t.Fatalf("kept %d is %q; want %q", i, kept[i], want[i])
		}
		if _ = append(kept[i], '!'); i+1 < len(kept) && string(kept[i+1]) != want[i+1] {
			t.Fatalf("appending to %d changed the next", i)
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		x.Reset(context.Background())
		x.Keep(append(x.Scratch(), "one"...))
		x.Keep(append(x.Scratch(), "two"...))
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDropHopByHop(t *testing.T) {
	var f Fields
	for _, name := range []string{
		"A", "connection", "Keep-Alive", "X-One", "TE", "X-Two", "Connection", "x-three", "Upgrade", "X_One", "B", "Transfer-Encoding",
	} {
		value := "v"
		if EqualName([]byte(name), "Connection") {
			value = " x-one , X-THREE,connection"
		}
		f.Add(name, []byte(value))
	}
	f.DropHopByHop()
	var left []string
	for _, field := range f {
		left = append(left, string(field.Name))
	}
	if want := []string{"A", "X-Two", "X_One", "B"}; !slices.Equal(left, want) {
		t.Errorf("left are %v; want %v", left, want)
	}
}

func TestSameField(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"X-Real-Ip", "x_real-IP", true}, {"X-Real-Ip", "X-Real-Ip", true}, {"X-Real-Ip", "X-RealIp", false}, {"A@", "a`", false}, {"", "", true}, {"A-B", "A.B", false},
	} {
		if got := SameField([]byte(tt.a), tt.b); got != tt.want {
			t.Errorf("SameField(%q, %q) = %v", tt.a, tt.b, got)
		}
	}
}
