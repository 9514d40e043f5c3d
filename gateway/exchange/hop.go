package exchange

import "bytes"

// hopByHop are the fields that end at this hop in either direction (RFC 9110
// §7.6.1), with the non-standard ones that clients and servers still send.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "TE", "Transfer-Encoding",
	"Upgrade", "Trailer", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info", "HTTP2-Settings",
}

// DropHopByHop removes the fields that end at this hop, and those that Connection
// names.
func (f *Fields) DropHopByHop() {
	for f.dropNamed() {
	}
	f.DelFunc(endsHere)
}

func endsHere(name []byte) bool {
	for _, n := range hopByHop {
		if EqualName(name, n) {
			return true
		}
	}
	return false
}

// dropNamed takes one Connection field away, with the fields that it names; false
// when there is none.
func (f *Fields) dropNamed() bool {
	for i := range *f {
		if !EqualName((*f)[i].Name, "Connection") {
			continue
		}
		named := (*f)[i].Value
		*f = append((*f)[:i], (*f)[i+1:]...)
		f.DelFunc(func(name []byte) bool { return !EqualName(name, "Connection") && lists(named, name) })
		return true
	}
	return false
}

// lists tells whether a list of names has this one.
func lists(list, name []byte) bool {
	for each := range bytes.SplitSeq(list, []byte(",")) {
		if each = bytes.TrimSpace(each); bytes.EqualFold(each, name) {
			return true
		}
	}
	return false
}
