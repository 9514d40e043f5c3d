package http1

// Poison has every buffer overwritten when it is given back. It is called before
// anything is served.
func Poison() { poisoning = true }
