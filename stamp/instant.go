package stamp

import "time"

// Instant is a point on the monotonic clock, in nanoseconds. On Linux its zero
// is that of CLOCK_MONOTONIC, so that two processes on one host can compare
// theirs directly; elsewhere the zero is the start of the process.
// The zero Instant means "never happened".
//
// In a testing/synctest bubble the clock is fake and has no monotonic part.
// Instants there count from 1970 on the fake clock; their differences are exact.
type Instant int64

// Sub returns i − j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Add returns i moved by d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Now returns the current instant.
func Now() Instant {
	// Since reads one clock, time.Now both. In a bubble it tells of the year 2000.
	if i := epoch + Instant(time.Since(start)); i > 0 {
		return i
	}
	return FromTime(time.Now())
}

// FromTime returns the instant of t. A t without a monotonic reading is placed
// by its wall time, as seen when the process started.
func FromTime(t time.Time) Instant {
	if i := epoch + Instant(t.Sub(start)); i > 0 {
		return i
	}
	// Before the boot of the host: no instant of CLOCK_MONOTONIC, so this is
	// the clock of a synctest bubble, which starts in the year 2000.
	return Instant(t.UnixNano())
}

// Realtime returns i on CLOCK_REALTIME, in nanoseconds since 1970, by a clock
// pair taken within the last second.
func (i Instant) Realtime() int64 {
	if i >= bubbleStart {
		return int64(i) // a synctest bubble's own wall time
	}
	return int64(i) + system.current().offset
}

// bubbleStart is 2000-01-01T00:00:00Z, where the clock of a synctest bubble
// starts. As an instant of a real host it would be an uptime of 30 years.
const bubbleStart Instant = 946684800e9

// start is a reading of the process's monotonic clock, and epoch the instant it
// was taken at. FromTime measures from it, since time.Time does not reveal its
// monotonic reading itself.
var (
	start = time.Now()
	epoch = findEpoch()
)

// findEpoch places start on CLOCK_MONOTONIC. The tightest of several brackets
// is taken: its error, tens of nanoseconds, is the same for all instants of the
// process.
func findEpoch() Instant {
	best, width := Instant(1), time.Duration(1<<62)
	for range 16 {
		before := time.Since(start)
		mono, ok := monotonic()
		if !ok {
			return 1
		}
		after := time.Since(start)
		if after-before < width {
			width = after - before
			best = Instant(mono) - Instant(before+width/2)
		}
	}
	return best
}

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
