//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
)

// tick knocks every so often, for the limits' sake.
func (l *Loop) tick(every time.Duration) {
	time.AfterFunc(every, func() {
		if l.lookSoon() {
			l.tick(every)
		}
	})
}

// lookSoon asks for a look at the limits; false when the loop is closed.
func (l *Loop) lookSoon() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.due = true
		l.knock()
	}
	return !l.closed
}

// knock ends the loop's wait. The caller holds mu, and has seen that the loop is
// not closed: its descriptors are.
func (l *Loop) knock() {
	one := uint64(1)
	// It fails when the count is full, and then the loop is awake.
	_, _ = unix.Write(l.wake, (*[8]byte)(unsafe.Pointer(&one))[:])
}

// poll returns how many sockets are ready now: the first of events.
func (l *Loop) poll() int {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// wait waits for one; 0 when the backlog is due before one comes, −1 when the set is
// broken. Where the pause before was short
// it sleeps in a system call that the scheduler does not know of, which keeps the
// processor. A longer pause is waited for in the runtime's poller, which hears of this
// set meanwhile, and no longer: each event would wake a thread there. In a
// blocking call that the scheduler does know of, its monitor would take the processor
// away again and again, and would not sleep itself.
func (l *Loop) wait() int {
	n := 0
	if l.slept < nap && !l.napless {
		n = l.nap()
	} else {
		n = l.poll()
	}
	if n > 0 {
		return n
	}
	begun := stamp.Now()
	l.backlog.ripen(begun)
	if l.backlog.due() {
		return 0
	}
	if left, some := l.backlog.remaining(begun); some {
		// Without a deadline, which cannot be, it waits for the next event.
		_ = l.file.SetReadDeadline(time.Now().Add(left))
		defer func() { _ = l.file.SetReadDeadline(time.Time{}) }()
	}
	if control(l.outer, unix.EPOLL_CTL_MOD, l.epoll, unix.EPOLLIN, 0, 0) != nil {
		return -1
	}
	l.n = 0
	if err := l.raw.Read(l.try); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) || control(l.outer, unix.EPOLL_CTL_MOD, l.epoll, 0, 0, 0) != nil {
		return -1
	}
	if l.slept = stamp.Now().Sub(begun); l.slept < nap && !l.napless && l.processors > 1 {
		// The thread that has just left the runtime's poller is ours now, and
		// keeps away from it: another must take its place, or connections would
		// wait for the monitor, up to 10 ms. Work to look for brings one there.
		go func() {}()
	}
	return l.n
}

// nap is the longest sleep that keeps a processor: above some 500 tokens a second
// the next one comes in it. What else wants to run has the other processors.
const nap = 2 * time.Millisecond

// napping counts the loops that keep one now; half of the processors at most. The
// others just look.
var napping atomic.Int64

func (l *Loop) nap() int {
	defer napping.Add(-1)
	var limit unix.Timespec
	if 2*napping.Add(1) <= int64(l.processors) {
		limit.Nsec = int64(nap)
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	switch errno {
	case 0:
		return int(n)
	case unix.EINTR:
	default:
		l.napless = true // before Linux 5.11, or not allowed
	}
	return 0
}

// every is how often the limits are looked at.
func (l Limits) every() time.Duration {
	every := time.Second
	for _, d := range []time.Duration{l.Connect, l.Header, l.Idle, l.Write, l.First, l.Await} {
		if d > 0 {
			every = min(every, d/8)
		}
	}
	return max(every, 2*time.Millisecond)
}

// sweep ends what is over a limit. But what has come while the loop was elsewhere is
// no silence: a socket that has something is left to the next turn.
func (l *Loop) sweep() {
	now := stamp.Now()
	var late []*socket
	l.mu.Lock()
	for _, k := range l.sockets {
		if k != nil && l.late(k, now) {
			late = append(late, k)
		}
	}
	deaf := l.deaf
	l.mu.Unlock()
	for _, k := range late {
		s := k.s
		switch {
		case k.stirs() || s != nil && s.up.stirs():
		case s == nil && k.client:
			l.drop(k)
		case s == nil:
			l.stale(k)
		case len(s.pending) > 0:
			l.finish(s, End{Gone: true, Err: errSlow})
		default:
			l.fail(s, os.ErrDeadlineExceeded)
		}
	}
	if deaf {
		l.unplug()
	}
}

// late reports whether a socket, or its stream by its client's, is over a limit.
func (l *Loop) late(k *socket, now stamp.Instant) bool {
	over := func(limit time.Duration, since stamp.Instant) bool { return limit > 0 && now.Sub(since) >= limit }
	s := k.s
	switch {
	case s == nil && !k.client:
		return over(k.to.IdleLimit(), k.quiet)
	case s == nil && k.fresh:
		return over(l.limits.First, k.quiet)
	case s == nil:
		return over(l.limits.Await, k.quiet)
	case !k.client:
		return false
	case s.stage == connecting:
		return over(l.limits.Connect, s.quiet)
	case s.stage == waiting:
		return over(l.limits.Header, s.quiet)
	case len(s.pending) > 0:
		return over(l.limits.Write, s.since)
	}
	return over(l.limits.Idle, s.quiet)
}
