//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"fmt"
	"os"
	"runtime"
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
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed {
			l.due = true
			l.knock()
			l.tick(every)
		}
	})
}

// knock ends the loop's wait. The caller holds mu, and has seen that the loop is
// not closed: its descriptors are.
func (l *Loop) knock() {
	one := uint64(1)
	// It fails when the count is full, and then the loop is awake.
	_, _ = unix.Write(l.wake, (*[8]byte)(unsafe.Pointer(&one))[:])
}

// An event carries the slot with the side in its lowest bit, and the generation
// that tells a stream from the one before in its slot.
const wakeSlot = -1

func (l *Loop) control(op, fd int, events uint32, place int32, gen uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: place, Pad: int32(gen)}
	if err := unix.EpollCtl(l.epoll, op, fd, &ev); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

func (l *Loop) watchEngine(s *Stream) error {
	return l.control(unix.EPOLL_CTL_ADD, s.Up.FD(), unix.EPOLLIN, int32(s.slot<<1), s.gen)
}

// watchClient asks for the client's leaving, and for room if bytes are pending.
func (l *Loop) watchClient(s *Stream, op int) error {
	var events uint32
	if !s.StayHalfClosed {
		events = unix.EPOLLRDHUP
	}
	if len(s.pending) > 0 {
		events |= unix.EPOLLOUT
	}
	return l.control(op, s.Down.FD(), events, int32(s.slot<<1|1), s.gen)
}

// poll returns the sockets that are ready now.
func (l *Loop) poll(events []unix.EpollEvent) int {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// wait waits for one; −1 when the set is broken. Where the pause before was short
// it sleeps in a system call that the scheduler does not know of, which keeps the
// processor. A longer pause is waited for in the runtime's poller, whose set this
// one is in: in a blocking call that the scheduler does know of, its monitor would
// take the processor away again and again, and would not sleep itself.
func (l *Loop) wait() int {
	if l.slept < nap {
		if n := l.nap(l.events); n > 0 {
			return n
		}
	}
	begun := stamp.Now()
	if l.raw.Read(l.try) != nil {
		return -1
	}
	if l.slept = stamp.Now().Sub(begun); l.slept < nap && !l.napless && runtime.GOMAXPROCS(0) > 1 {
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

// napping counts the loops that keep one now; half of the processors at most. That
// is asked each time, since a container's quota changes while it runs.
var napping atomic.Int64

func (l *Loop) nap(events []unix.EpollEvent) int {
	if l.napless {
		return 0
	}
	defer napping.Add(-1)
	if 2*napping.Add(1) > int64(runtime.GOMAXPROCS(0)) {
		return 0
	}
	limit := unix.Timespec{Nsec: int64(nap)}
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
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
	for _, d := range []time.Duration{l.Idle, l.Write, l.Await} {
		if d > 0 {
			every = min(every, d/8)
		}
	}
	return max(every, 2*time.Millisecond)
}

// sweep ends the streams that are over a limit.
func (l *Loop) sweep() {
	now := stamp.Now()
	over := func(limit time.Duration, since stamp.Instant) bool { return limit > 0 && now.Sub(since) >= limit }
	var silent, slow, unheard []*Stream
	l.mu.Lock()
	for _, s := range l.streams {
		switch {
		case s == nil:
		case s.next != nil:
			if over(l.limits.Await, s.quiet) {
				unheard = append(unheard, s)
			}
		case len(s.pending) > 0:
			if over(l.limits.Write, s.since) {
				slow = append(slow, s)
			}
		case over(l.limits.Idle, s.quiet):
			silent = append(silent, s)
		}
	}
	l.mu.Unlock()
	for _, s := range unheard {
		l.awaited(s, false)
	}
	for _, s := range slow {
		l.finish(s, End{Gone: true, Err: errSlow})
	}
	for _, s := range silent {
		l.finish(s, End{Err: os.ErrDeadlineExceeded})
	}
}
