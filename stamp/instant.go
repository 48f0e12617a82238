package stamp

import "time"

// Instant is a point on the monotonic clock, in nanoseconds. On Linux its zero
// is that of CLOCK_MONOTONIC, so that two processes on one host can compare
// theirs directly; elsewhere the zero is the start of the process.
// The zero Instant means "never happened".
type Instant int64

// Sub returns i − j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Add returns i moved by d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Source says who took an instant.
type Source uint8

const (
	// User is the clock read directly after the read returned.
	User Source = iota
	// Kernel is the receive stamp that the kernel gave the segment
	// (SO_TIMESTAMPNS, read with recvmsg).
	Kernel
)

// String returns the word used in records: "user" or "kernel".
func (s Source) String() string {
	if s == Kernel {
		return "kernel"
	}
	return "user"
}
