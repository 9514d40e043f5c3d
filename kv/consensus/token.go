package consensus

// token is a lock that may be held while time passes: who waits for it may also
// wait for something else, and fake time goes on.
type token chan struct{}

func newToken() token { return make(token, 1) }

func (t token) lock()   { t <- struct{}{} }
func (t token) unlock() { <-t }
