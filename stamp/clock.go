package stamp

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pairAge is how long a clock pair serves before it is measured again.
	pairAge = Instant(time.Second)
	// stepSuspected is the difference between a single reading's pair and the
	// measured one from which a step of the wall clock is looked into. A
	// goroutine preempted between its two clock reads shows the same.
	stepSuspected = 20 * time.Microsecond
	// pairNoise is what two good pairs may differ by. On Linux NTP slews both
	// clocks alike, so that only a step moves one against the other.
	pairNoise = time.Microsecond
)

// clock maps CLOCK_REALTIME to instants.
type clock struct {
	// now reads both clocks, the wall clock first.
	now func() (real int64, mono Instant)

	measuring sync.Mutex
	pair      atomic.Pointer[pair]
	refused   refusals
}

// pair says how far the wall clock is ahead of the monotonic one.
type pair struct {
	offset int64 // real − mono
	width  int64 // of the bracket it was measured in: offset's error is half of it
	at     Instant
	era    uint32 // counts the steps of the wall clock
}

// system is the clock of the host.
var system = clock{now: func() (int64, Instant) {
	t := time.Now()
	return t.UnixNano(), FromTime(t)
}}

// current returns a pair no older than pairAge.
func (c *clock) current() *pair { return c.check(c.now()) }

// check returns the pair to use at a reading (real, mono) of both clocks; it
// measures a new one when the last has aged, or the reading contradicts it.
func (c *clock) check(real int64, mono Instant) *pair {
	p := c.pair.Load()
	if p != nil && mono-p.at < pairAge {
		if off := time.Duration(real - int64(mono) - p.offset); off < stepSuspected && off > -stepSuspected {
			return p
		}
	}
	return c.measure(p)
}

// measure takes a pair and publishes it. A pair that agrees with last keeps the
// better offset of the two, so that instants do not jitter with each sample.
func (c *clock) measure(last *pair) *pair {
	c.measuring.Lock()
	defer c.measuring.Unlock()
	if p := c.pair.Load(); p != last {
		return p // another goroutine has just done it
	}
	next := c.bracket()
	if last != nil {
		next.era = last.era
		switch diff := next.offset - last.offset; {
		case max(diff, -diff) > int64(pairNoise)+next.width/2+last.width/2:
			next.era++
		case last.width < next.width:
			next.offset, next.width = last.offset, last.width
		}
	}
	c.pair.Store(next)
	return next
}

// bracket measures the offset between the clocks: of a few tries, the one
// whose wall reading lies in the tightest pair of monotonic ones.
func (c *clock) bracket() *pair {
	best := &pair{width: 1 << 62}
	_, before := c.now()
	for range 8 {
		real, after := c.now()
		if width := int64(after - before); width < best.width {
			best.width = width
			best.offset = real - int64(before) - width/2
		}
		before = after
	}
	best.at = before
	return best
}

// refusals counts the reads whose kernel stamp was not used, by reason.
type refusals struct {
	missing, late, early, step atomic.Int64
}

// Refusals says how many reads of kernel-stamped connections fell back to the
// user stamp since the process started, and why.
type Refusals struct {
	Missing int64 // the kernel gave none: the segment came before stamping was on
	Late    int64 // later than the read itself
	Early   int64 // older than the read before it on the same socket
	Step    int64 // first read of the socket after the wall clock was stepped
}

// Refused returns the counts of the process.
func Refused() Refusals { return system.refused.read() }

func (r *refusals) read() Refusals {
	return Refusals{r.missing.Load(), r.late.Load(), r.early.Load(), r.step.Load()}
}

// track turns the kernel stamps of one socket into instants.
type track struct {
	clk    *clock
	era    uint32
	raw    int64 // of the last accepted stamp, on CLOCK_REALTIME
	kernel Instant
	last   Instant // of the last read, whoever stamped it
	begun  bool
}

// place returns the instant of a read whose kernel stamp is raw (0: none).
// It is called directly after the read.
func (t *track) place(raw int64) (Instant, Source) {
	real, read := t.clk.now()
	p := t.clk.check(real, read)
	at, src := t.judge(p, raw, read)
	t.last = at
	return at, src
}

func (t *track) judge(p *pair, raw int64, read Instant) (Instant, Source) {
	refused := &t.clk.refused
	stepped := t.begun && p.era != t.era
	t.begun, t.era = true, p.era
	switch {
	case raw == 0:
		refused.missing.Add(1)
		return read, User
	case stepped:
		// The segment may have come before the step or after it.
		t.raw = 0
		refused.step.Add(1)
		return read, User
	case raw == t.raw && t.kernel == t.last:
		// More of the same segment: the same instant to the nanosecond, also
		// when a better pair was measured since.
		return t.kernel, Kernel
	}
	at := Instant(raw - p.offset)
	noise := Instant(pairNoise) + Instant(p.width/2)
	if at > read {
		if at-read > noise {
			refused.late.Add(1)
			return read, User
		}
		at = read
	}
	if at <= t.last {
		if t.last-at > noise {
			refused.early.Add(1)
			return read, User
		}
		at = t.last + 1 // another segment: not the same instant
	}
	t.raw, t.kernel = raw, at
	return at, Kernel
}
