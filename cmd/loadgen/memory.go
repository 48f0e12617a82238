package main

import (
	"os"
	"runtime/debug"
)

// gcPercent is how far the heap may grow beyond what lives while a run measures.
// A window allocates next to nothing but the slowly growing logs of its streams,
// so a heap twice as large would spare only a few cycles of some milliseconds.
const gcPercent = 10

// thrifty sets the collector to gcPercent until the func it returns is called;
// GOGC of the environment stands. It is not for the demo, where engine and proxy
// live in the same process and allocate all the time: there it held requests up
// by milliseconds.
func thrifty() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(gcPercent)
	return func() { debug.SetGCPercent(before) }
}
