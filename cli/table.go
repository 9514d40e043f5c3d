package cli

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// table is aligned text. Its cells are never wrapped or cut.
type table struct {
	head []string
	rows [][]string
	// paint adds colour to a cell that is already aligned; nil adds none.
	paint func(cell string) string
}

const (
	columnGap = 2 // the space between two columns
	// columnMost is how wide a column gets. A cell that is longer pushes what follows in its own row alone.
	columnMost = 48
)

func (t table) write(w io.Writer) error {
	rows := t.rows
	if t.head != nil {
		rows = append([][]string{t.head}, rows...)
	}
	widths := t.widths(rows)
	var b strings.Builder
	for _, row := range rows {
		t.writeRow(&b, row, widths)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t table) widths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if width := utf8.RuneCountInString(printable(cell)); width <= columnMost {
				widths[i] = max(widths[i], width)
			}
		}
	}
	return widths
}

// writeRow leaves no spaces at the end of a line.
func (t table) writeRow(b *strings.Builder, row []string, widths []int) {
	padding := 0
	for i, cell := range row {
		cell = printable(cell)
		if cell == "" {
			padding += widths[i] + columnGap
			continue
		}
		b.WriteString(strings.Repeat(" ", padding))
		padding = max(0, widths[i]-utf8.RuneCountInString(cell)) + columnGap
		if t.paint != nil {
			cell = t.paint(cell)
		}
		b.WriteString(cell)
	}
	b.WriteByte('\n')
}

// printable escapes what would break a line or command the terminal: a value may come from anybody who can write keys.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
