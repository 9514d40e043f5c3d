package http1

// frames follows the frames of a WebSocket (RFC 6455 §5.2), to know where one
// ends and another has not begun. The zero value is there.
type frames struct {
	head [14]byte // 2, then 0, 2 or 8 of length, then 0 or 4 of mask
	have int      // bytes of head that came
	left uint64   // bytes of payload to come
}

// between tells whether no frame is under way.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 }

// feed takes the bytes that come next.
func (f *frames) feed(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left -= n
			p = p[n:]
			continue
		}
		f.head[f.have] = p[0]
		f.have++
		p = p[1:]
		if f.have >= 2 && f.have == f.headSize() {
			f.left, f.have = f.payload(), 0
		}
	}
}

// headSize is how long the head is, of which 2 bytes are there.
func (f *frames) headSize() int {
	size := 2
	switch f.head[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if f.head[1]&0x80 != 0 {
		size += 4
	}
	return size
}

func (f *frames) payload() (n uint64) {
	var extended []byte
	switch short := f.head[1] & 0x7f; short {
	case 126:
		extended = f.head[2:4]
	case 127:
		extended = f.head[2:10]
	default:
		return uint64(short)
	}
	for _, b := range extended {
		n = n<<8 | uint64(b)
	}
	return n
}
