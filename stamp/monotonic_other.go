//go:build !linux

package stamp

// monotonic has no portable form: instants then count from the process's start.
func monotonic() (ns int64, ok bool) { return 0, false }
