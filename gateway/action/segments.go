package action

import (
	"bytes"

	"grapevine/gateway/spec"
)

// Captures are what stands in a path for the parameters of a template that takes
// it: for each the bytes as they are in path, whose memory they share. A
// catch-all has all that is left, without the slash in front.
func Captures(template spec.Template, path []byte) map[string][]byte {
	captures := map[string][]byte{}
	for i, s := range template.Segments {
		rest := bytes.TrimPrefix(cutSegments(path, i), []byte("/"))
		switch s.Kind {
		case spec.Parameter:
			captures[s.Text], _, _ = bytes.Cut(rest, []byte("/"))
		case spec.CatchAll:
			captures[s.Text] = rest
		}
	}
	return captures
}

// cutSegments is what stands behind the first n segments: nothing, or what
// begins with "/".
func cutSegments(path []byte, n int) []byte {
	for ; n > 0 && len(path) > 0; n-- {
		next := bytes.IndexByte(path[1:], '/')
		if next < 0 {
			return nil
		}
		path = path[1+next:]
	}
	return path
}
