package proxy

import "testing"

// path makes a Config one whose streams go by an event loop where they can, or by
// a goroutine each. In memory there are goroutines only.
type path func(Config) Config

// onBothPaths runs a test of sockets on each way that a stream can go.
func onBothPaths(t *testing.T, f func(t *testing.T, on path)) {
	t.Helper()
	for _, p := range []struct {
		name    string
		noRelay bool
	}{{"by the loop", false}, {"by goroutines", true}} {
		t.Run(p.name, func(t *testing.T) {
			f(t, func(c Config) Config {
				c.NoRelay = p.noRelay
				return c
			})
		})
	}
}
