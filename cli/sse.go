package cli

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strings"
)

// maxEventLine leaves room for the largest value there is, escaped in the worst way.
const maxEventLine = 4 << 20

// event is one event of a stream (HTML Living Standard §9.2).
type event struct {
	id   string // of the last event that had one
	name string
	data string
}

// events reads a stream until it ends; what ends it other than its end is the last pair's error. Comments and unknown
// fields are skipped, and so is an event that the end of the stream cuts short.
func events(r io.Reader) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxEventLine)
		var e event
		var data []string
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case lines.Text() == "" && data != nil:
				e.data = strings.Join(data, "\n")
				if !yield(e, nil) {
					return
				}
				fallthrough
			case lines.Text() == "":
				e.name, data = "", nil
			case name == "id":
				e.id = value
			case name == "event":
				e.name = value
			case name == "data":
				data = append(data, value)
			}
		}
		if err := lines.Err(); err != nil {
			yield(event{}, fmt.Errorf("reading events: %w", err))
		}
	}
}
