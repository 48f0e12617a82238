//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

const (
	// receiveRoom is the room that each receive has: all that a socket holds
	// of a stream, and a piece of a large body.
	receiveRoom = 64 << 10
	// batchRoom is what can be forwarded before some of it must be observed.
	batchRoom = 8 * receiveRoom
	// ready is the most sockets that one wait reports.
	ready = 256
	// observeAtOnce is the number of reads observed between two looks at the
	// sockets when nothing was ready: some 20 µs. observeBetween is how many are
	// even when something may be: of a stream of single tokens each would
	// otherwise cost a look that finds nothing.
	observeAtOnce  = 16
	observeBetween = 2
	// turnsAtOnce is how often the loop goes round before it lets others have its
	// processor, if they want it. Where there is one, only that keeps a flood from
	// holding them up until the runtime's monitor sees it, 10 ms.
	turnsAtOnce = 64
)

// Loop carries streams. Its goroutine owns everything but what mu guards.
type Loop struct {
	limits Limits
	epoll  int
	file   *os.File        // the same, in the runtime's poller
	raw    syscall.RawConn // of file
	wake   int             // an eventfd in the set
	done   chan struct{}

	mu                 sync.Mutex
	streams            []*Stream // by slot; nil where there is none
	gens               []uint32  // of each slot's present or next stream
	free               []uint32
	cancels            []cancel
	dismiss, dismissed bool // who is waited for is to be let go; nobody is waited for any more
	closed             bool
	due                bool  // the limits are to be looked at
	err                error // what broke the loop

	endsMu  sync.Mutex
	ends    []ended
	telling bool // a goroutine empties ends
	beside  sync.WaitGroup

	receiver *stamp.Receiver
	buf      []byte
	used     int // of buf, by what held points to
	held     []held
	first    int // of held, not yet observed
	spans    []upstream.Span
	touched  []touched
	events   []unix.EpollEvent
	n        int                // of events, by the last try
	try      func(uintptr) bool // poll into them, bound once: the poller's call would allocate it
	napless  bool               // the system has no naps
	slept    time.Duration      // the last time in the poller
}

// held is a read that was forwarded and is not yet observed.
type held struct {
	s    *Stream
	data []byte
	at   stamp.Instant
	src  stamp.Source
}

// touched is a socket that a wait has reported.
type touched struct {
	s      *Stream
	client bool
	events uint32
}

type cancel struct {
	s   *Stream
	err error
}

// New starts a loop. Close ends it.
func New(limits Limits) (*Loop, error) {
	l := &Loop{limits: limits, done: make(chan struct{}), receiver: stamp.NewReceiver(), buf: make([]byte, batchRoom),
		events: make([]unix.EpollEvent, ready)}
	l.try = func(uintptr) bool { l.n = l.poll(l.events); return l.n > 0 }
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(l.epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if err = l.control(unix.EPOLL_CTL_ADD, l.wake, unix.EPOLLIN, wakeSlot, 0); err == nil {
		err = unix.SetNonblock(l.epoll, true)
	}
	if err != nil {
		_ = unix.Close(l.wake)
		_ = unix.Close(l.epoll)
		return nil, err
	}
	l.file = os.NewFile(uintptr(l.epoll), "epoll")
	if l.raw, err = l.file.SyscallConn(); err != nil {
		_ = unix.Close(l.wake)
		_ = l.file.Close()
		return nil, err
	}
	go l.run()
	return l, nil
}

// Close ends the loop; the streams that it still carries are cut. When it returns
// every stream's Ended has; clients that were given to next are their holder's.
func (l *Loop) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.knock()
	}
	l.mu.Unlock()
	<-l.done
	l.beside.Wait()
}

// Err returns what broke the loop, nil while it works: it then carries nothing.
func (l *Loop) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Open returns how many streams it carries.
func (l *Loop) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.streams) - len(l.free)
}

func (l *Loop) run() {
	defer close(l.done)
	l.tick(l.limits.every())
	events := l.events
	for turns := 1; ; turns++ {
		n := l.poll(events)
		if n == 0 {
			if l.first < len(l.held) {
				l.observe(observeAtOnce)
				continue
			}
			if n = l.wait(); n < 0 {
				break // its set is broken
			}
		}
		if turns%turnsAtOnce == 0 {
			runtime.Gosched()
		}
		due, closed := l.look(events[:n])
		if closed {
			break
		}
		for _, t := range l.touched {
			if t.s.over {
				continue
			}
			if t.client {
				l.client(t.s, t.events)
			} else {
				l.engine(t.s)
			}
		}
		clear(l.touched)
		l.observe(observeBetween)
		if due {
			l.sweep()
		}
	}
	l.abandon()
	_ = unix.Close(l.wake)
	_ = l.file.Close()
}

// look finds the streams of the events, and the calls that came; due reports that
// the limits are to be looked at, closed that the loop is to end.
func (l *Loop) look(events []unix.EpollEvent) (due, closed bool) {
	l.touched = l.touched[:0]
	l.mu.Lock()
	for i := range events {
		ev := &events[i]
		if ev.Fd == wakeSlot {
			var count [8]byte
			_, _ = unix.Read(l.wake, count[:])
			continue
		}
		slot := uint32(ev.Fd) >> 1
		if s := l.streams[slot]; s != nil && s.gen == uint32(ev.Pad) {
			l.touched = append(l.touched, touched{s, ev.Fd&1 != 0, ev.Events})
		}
	}
	cancels := l.cancels
	l.cancels = nil
	due, closed = l.due, l.closed
	l.due = false
	var waiting []*Stream
	if l.dismiss {
		l.dismiss = false
		for _, s := range l.streams {
			if s != nil && s.next != nil {
				waiting = append(waiting, s)
			}
		}
	}
	l.mu.Unlock()
	for _, s := range waiting {
		l.awaited(s, s.Down.Readable()) // a request that has come is answered
	}
	for _, c := range cancels {
		if !c.s.over {
			l.finish(c.s, End{Err: c.err})
		}
	}
	return due, closed
}

var (
	errClosed = errors.New("the relay is closed")
	errBroken = errors.New("the relay's epoll set is broken")
)

// abandon cuts what is left when the loop ends.
func (l *Loop) abandon() {
	l.mu.Lock()
	if !l.closed {
		l.closed, l.err = true, errBroken
	}
	left := l.streams
	l.streams, l.free = nil, nil
	l.mu.Unlock()
	for _, s := range left {
		if s == nil {
			continue
		}
		s.over = true
		if s.next != nil {
			_ = s.Down.Close()
			continue
		}
		l.settle(s)
		l.ended(s, End{At: stamp.Now(), Err: errClosed})
	}
}
