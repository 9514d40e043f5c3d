package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// maxNear bounds how many near matches a message offers.
const maxNear = 3

// didYouMean returns ` (did you mean "x"?)` with the candidates that are a typing error away from word, or nothing.
func didYouMean(word string, candidates []string) string {
	near := slices.DeleteFunc(slices.Clone(candidates), func(c string) bool {
		return !isNear(word, c)
	})
	if len(near) == 0 {
		return ""
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(edits(word, a), edits(word, b)) })
	near = near[:min(len(near), maxNear)]
	for i, n := range near {
		near[i] = strconv.Quote(n)
	}
	return " (did you mean " + strings.Join(near, " or ") + "?)"
}

// isNear allows one wrong letter in three, and a word that was cut short.
func isNear(word, candidate string) bool {
	bare, typed := strings.TrimLeft(candidate, "-"), strings.TrimLeft(word, "-")
	if len(typed) >= 2 && strings.HasPrefix(bare, typed) {
		return true
	}
	return edits(typed, bare) <= max(len(typed), len(bare))/3
}

// edits is the number of bytes to add, drop, change or swap with a neighbour to make b of a.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
