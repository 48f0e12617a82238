//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
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
	// ready is the most sockets that one wait reports.
	ready = 256
	// requestsAtOnce is how many requests are begun between two looks at the
	// sockets: some 10 µs each.
	requestsAtOnce = 16
	// eventsAtOnce is how many events the loop handles, some 10 µs each, before it lets
	// others have its processor, if they want it. Where there is one, only that keeps a
	// flood from holding them up until the runtime's monitor sees it, 10 ms.
	eventsAtOnce = 256
)

// Loop carries streams. Its goroutine owns everything but what mu guards.
type Loop struct {
	limits Limits
	front  Front
	epoll  int
	outer  int             // a set that has epoll in it, and asks for it while the loop waits for long
	file   *os.File        // outer, in the runtime's poller
	raw    syscall.RawConn // of file
	wake   int             // an eventfd in the set
	done   chan struct{}
	calm   chan struct{} // closed when nobody is waited for any more

	mu        sync.Mutex
	sockets   []*socket // by slot; nil where there is none
	gens      []uint32  // of each slot's present or next socket
	free      []uint32
	open      int // streams
	cancels   []cancel
	ears      []*stamp.RawListener
	dismissed bool // nobody is to be waited for any more
	calmed    bool // who was has been let go
	closed    bool
	due       bool  // the limits are to be looked at
	err       error // what broke the loop
	// idle are the connections that wait for a request, the newest last.
	idle map[*upstream.Client][]*socket

	ends []ended // streams whose sinks are to be told
	told int     // of ends
	deaf bool    // a connection could not be accepted

	receiver   *stamp.Receiver
	buf        []byte  // for each receive
	backlog    backlog // what is not yet observed
	spans      []upstream.Span
	heads      upstream.HeadRoom
	rooms      [][]byte // for the requests to come
	touched    []touched
	events     []unix.EpollEvent
	n          int                // of events, by the last try
	try        func(uintptr) bool // poll into them, bound once: the poller's call would allocate it
	napless    bool               // the system has no naps
	processors int                // GOMAXPROCS, at the last look at the limits: a container's quota changes
	slept      time.Duration      // the last time in the poller
}

// touched is a socket that a wait has reported.
type touched struct {
	k      *socket
	events uint32
}

type cancel struct {
	s   *Stream
	err error
}

// ended is a stream that is over, and how it ended.
type ended struct {
	s   *Stream
	end End
}

// New starts a loop. Close ends it.
func New(limits Limits, front Front) (*Loop, error) {
	l := &Loop{limits: limits, front: front, idle: map[*upstream.Client][]*socket{}, done: make(chan struct{}), calm: make(chan struct{}), processors: runtime.GOMAXPROCS(0), receiver: stamp.NewReceiver(), buf: make([]byte, receiveRoom), spans: make([]upstream.Span, 0, 64),
		events: make([]unix.EpollEvent, ready)}
	l.try = func(uintptr) bool { l.n = l.poll(); return l.n > 0 }
	if err := l.makeSets(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// makeSets makes what is waited in.
func (l *Loop) makeSets() (err error) {
	made := []int{}
	defer func() {
		if err != nil {
			for _, fd := range made {
				_ = unix.Close(fd)
			}
		}
	}()
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	made = append(made, l.epoll)
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	made = append(made, l.wake)
	if err = control(l.epoll, unix.EPOLL_CTL_ADD, l.wake, unix.EPOLLIN, wakeSlot, 0); err != nil {
		return err
	}
	if l.outer, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	made = append(made, l.outer)
	// Once, since adding a set walks through all that is in it.
	if err = control(l.outer, unix.EPOLL_CTL_ADD, l.epoll, 0, 0, 0); err != nil {
		return err
	}
	if err = unix.SetNonblock(l.outer, true); err != nil {
		return fmt.Errorf("epoll set: %w", err)
	}
	l.file = os.NewFile(uintptr(l.outer), "epoll")
	l.raw, err = l.file.SyscallConn()
	return err
}

// Close ends the loop; the streams that it still carries are cut. When it returns
// every stream's Ended has; clients that the front was given are the front's.
func (l *Loop) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.knock()
	}
	l.mu.Unlock()
	<-l.done
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
	return l.open
}

func (l *Loop) run() {
	defer close(l.done)
	l.tick(l.limits.every())
	for handled := 0; ; {
		n := 0
		if l.backlog.due() || len(l.ends) > 0 {
			n = l.poll()
		} else if n = l.wait(); n < 0 {
			break // its set is broken
		}
		if n == 0 { // time for what was put off, a little at once
			l.backlog.observe(observeAtOnce)
			l.tellFor(tellTime)
			continue
		}
		if handled += n; handled >= eventsAtOnce {
			handled = 0
			runtime.Gosched()
			l.backlog.ripen(stamp.Now()) // though none of those that are ready is a stream
		}
		due, closed := l.look(l.events[:n])
		if closed {
			break
		}
		l.touch()
		l.backlog.observe(l.backlog.share(n))
		// A share of them, so that they do not grow where something is always ready.
		l.tell(len(l.ends) / tellShare)
		if due {
			l.processors = runtime.GOMAXPROCS(0)
			l.sweep()
		}
	}
	l.abandon()
	_ = unix.Close(l.wake)
	_ = unix.Close(l.epoll)
	_ = l.file.Close()
}

// touch handles the sockets that are ready, those of the engines first: a token does
// not wait for a request. Requests that are too many for one turn are reported again.
func (l *Loop) touch() {
	for _, t := range l.touched {
		switch {
		case t.k.client:
		case t.k.s == nil:
			l.stale(t.k)
		default:
			l.engine(t.k)
		}
	}
	requests := 0
	for _, t := range l.touched {
		if !t.k.client {
			continue
		}
		if t.k.s == nil {
			if requests++; requests > requestsAtOnce {
				continue
			}
		}
		l.client(t.k, t.events)
	}
	clear(l.touched)
}

// tellShare is the share of the streams that are over whose sinks are told between
// two looks at the sockets when something may be ready.
const tellShare = 16

// tellTime is how long sinks are told between two looks at the sockets when nothing was
// ready: the end of a short request takes some 3 µs, that of a stream up to 20.
const tellTime = 10 * time.Microsecond

// tellFor tells sinks of their streams' ends until some time has passed.
func (l *Loop) tellFor(d time.Duration) {
	for begun := stamp.Now(); len(l.ends) > 0 && stamp.Now().Sub(begun) < d; {
		l.tell(1)
	}
}

// tell tells up to n sinks of their streams' ends.
func (l *Loop) tell(n int) {
	for ; n > 0 && l.told < len(l.ends); n-- {
		e := &l.ends[l.told]
		l.backlog.settle(e.s)
		e.s.Sink.Ended(e.end)
		*e = ended{}
		l.told++
	}
	if l.told == len(l.ends) {
		l.ends, l.told = l.ends[:0], 0
	}
}

// look finds the sockets of the events, and the calls that came; due reports that
// the limits are to be looked at, closed that the loop is to end.
func (l *Loop) look(events []unix.EpollEvent) (due, closed bool) {
	l.touched = l.touched[:0]
	var heard []*stamp.RawListener
	l.mu.Lock()
	for i := range events {
		ev := &events[i]
		switch {
		case ev.Fd == wakeSlot:
			var count [8]byte
			_, _ = unix.Read(l.wake, count[:])
		case ev.Fd < wakeSlot:
			if ear := int(wakeSlot - 1 - ev.Fd); ear < len(l.ears) {
				heard = append(heard, l.ears[ear])
			}
		default:
			if k := l.sockets[ev.Fd]; k != nil && k.gen == uint32(ev.Pad) {
				l.touched = append(l.touched, touched{k, ev.Events})
			}
		}
	}
	cancels := l.cancels
	l.cancels = nil
	due, closed = l.due, l.closed
	l.due = false
	dismiss := l.dismissed && !l.calmed
	l.calmed = l.dismissed
	l.backlog.crowded = l.open >= crowd
	l.mu.Unlock()
	for _, c := range cancels {
		if !c.s.over {
			l.fail(c.s, c.err)
		}
	}
	for _, ear := range heard {
		l.accept(ear)
	}
	if dismiss {
		l.letAllGo()
		close(l.calm)
	}
	return due, closed
}

// letAllGo ends the listening and lets go who is waited for.
func (l *Loop) letAllGo() {
	l.mu.Lock()
	ears := l.ears
	l.ears = nil
	var clients []*socket
	for _, k := range l.sockets {
		if k != nil && k.client && k.s == nil {
			clients = append(clients, k)
		}
	}
	l.mu.Unlock()
	for _, ear := range ears {
		// Explicitly, since another loop may listen on the same socket.
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, ear.FD(), nil)
		_ = ear.Close()
	}
	for _, k := range clients {
		l.letGo(k)
	}
}

// letGo lets go a client that was waited for; a request that has come is answered.
func (l *Loop) letGo(k *socket) {
	if k.raw.Readable() {
		l.request(k)
	} else {
		l.drop(k)
	}
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
	left, ears := slices.Clone(l.sockets), l.ears
	l.ears = nil
	l.mu.Unlock()
	for _, ear := range ears {
		_ = ear.Close()
	}
	for _, k := range left {
		switch {
		case k == nil:
		case k.s == nil && k.client:
			l.drop(k)
		case k.s == nil:
			l.stale(k)
		case k.client:
			l.fail(k.s, errClosed)
		}
	}
	l.tell(len(l.ends))
}
