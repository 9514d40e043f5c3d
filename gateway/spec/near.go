package spec

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// DidYouMean is ` (did you mean "a" or "b"?)` with the names that are near to
// what was written, or empty.
func DidYouMean(written string, names iter.Seq[string]) string {
	var quotes []string
	for _, name := range near(written, names) {
		quotes = append(quotes, fmt.Sprintf("%q", name))
	}
	if len(quotes) == 0 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", strings.Join(quotes, " or "))
}

// near are at most three names that a person may have meant, the nearest first.
func near(written string, names iter.Seq[string]) []string {
	const longest = 64 // nobody mistypes a longer name, and distance takes its square
	if len(written) > longest {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for name := range names {
		if d, ok := resembles(bare(written), bare(name)); ok {
			found = append(found, candidate{name, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var best []string
	for _, c := range found[:min(3, len(found))] {
		best = append(best, c.name)
	}
	return best
}

// bare is what is compared of a name.
func bare(name string) string { return strings.TrimLeft(fold(name), "-") }

// resembles says how far apart two folded names are, if they are near: one
// slip in three letters, or the one begins with the other.
func resembles(a, b string) (distance int, ok bool) {
	distance = edits(a, b)
	if min(len(a), len(b)) < 2 { // every letter is one slip from every other
		return distance, false
	}
	if distance <= max(1, min(len(a), len(b))/3) {
		return distance, true
	}
	return distance, len(a) > 2 && (strings.HasPrefix(b, a) || len(b) > 2 && strings.HasPrefix(a, b))
}

// edits counts the letters to insert, delete, change or swap with their
// neighbour that make b of a (optimal string alignment).
func edits(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		var last []int
		last, before, row = before, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := before[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(before[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], last[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
