//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

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

	endsMu  sync.Mutex
	ends    []ended
	telling bool // a goroutine empties ends

	receiver *stamp.Receiver
	buf      []byte
	used     int // of buf, by what held points to
	held     []held
	first    int // of held, not yet observed
	spans    []upstream.Span
	touched  []touched
	swept    stamp.Instant
	events   []unix.EpollEvent
	n        int                // of events, by the last try
	try      func(uintptr) bool // poll into them, bound once: the poller's call would allocate it
	brisk    bool               // naps are allowed
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
		brisk: runtime.GOMAXPROCS(0) > 1, events: make([]unix.EpollEvent, ready)}
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

// Close ends the loop; the streams that it still carries are cut.
func (l *Loop) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.knock()
	}
	l.mu.Unlock()
	<-l.done
}

// Open returns how many streams it carries.
func (l *Loop) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.streams) - len(l.free)
}

// Carry takes a stream, whose client gets head first, and then what came of the
// body so far: in one send, from the caller's goroutine. It never fails; what
// goes wrong is told to Ended.
func (l *Loop) Carry(s *Stream, head []byte) {
	s.quiet = stamp.Now()
	early := s.Up.Early
	s.Up.Early = nil
	tail, used, spans, err := s.Up.Scan(early, nil)
	out := s.outgoing(append(head, early[:used]...), len(head)+tail, early[tail:used])
	over, end := s.forward(out, s.Up.At, err)
	if data := compact(early, spans); len(data) > 0 {
		s.Sink.Observe(data, s.Up.At, s.Up.Source)
	}
	if !over {
		over, end = l.add(s)
	}
	if over {
		l.ended(s, end)
	}
}

// add enters a stream; the loop may read it before add has returned.
func (l *Loop) add(s *Stream) (over bool, end End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true, End{Err: errClosed}
	}
	l.enter(s)
	err := l.watchClient(s, unix.EPOLL_CTL_ADD)
	if err == nil && len(s.pending) == 0 {
		err = l.watchEngine(s)
	}
	if err != nil {
		l.remove(s)
		return true, End{Err: err}
	}
	return false, End{}
}

// Await waits until a client sends, and calls next with its socket, in a
// goroutine of its own. One that leaves, is silent for longer than the limit, or
// is still waited for at Dismiss, is closed.
func (l *Loop) Await(client *stamp.Raw, next func(*stamp.Raw)) {
	s := &Stream{Down: client, next: next, quiet: stamp.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.dismissed {
		_ = client.Close()
		return
	}
	l.enter(s)
	if err := l.control(unix.EPOLL_CTL_ADD, client.FD(), unix.EPOLLIN|unix.EPOLLRDHUP, int32(s.slot<<1|1), s.gen); err != nil {
		l.remove(s)
		_ = client.Close()
	}
}

// Dismiss closes the clients that are waited for, and those that would be.
func (l *Loop) Dismiss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dismiss, l.dismissed = true, true
	if !l.closed {
		l.knock()
	}
}

// enter gives s a slot; the caller holds mu.
func (l *Loop) enter(s *Stream) {
	if n := len(l.free); n > 0 {
		s.slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		s.slot = uint32(len(l.streams))
		l.streams, l.gens = append(l.streams, nil), append(l.gens, 0)
	}
	l.gens[s.slot]++
	s.gen = l.gens[s.slot]
	l.streams[s.slot] = s
}

// remove takes s out; the caller holds mu.
func (l *Loop) remove(s *Stream) {
	// Explicitly, since the sockets may live on under other descriptors, and
	// would stay in the set. One that is not in it is no matter.
	if s.Up != nil {
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, s.Up.FD(), nil)
	}
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, s.Down.FD(), nil)
	l.streams[s.slot] = nil
	l.free = append(l.free, s.slot)
}

// Cancel ends a stream with err, from any goroutine, once Carry has returned. Of
// one that is over it is no matter.
func (l *Loop) Cancel(s *Stream, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(s.slot) >= len(l.streams) || l.streams[s.slot] != s {
		return
	}
	l.cancels = append(l.cancels, cancel{s, err})
	l.knock()
}

// tick knocks every so often, for the limits' sake.
func (l *Loop) tick(every time.Duration) {
	time.AfterFunc(every, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed {
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

func (l *Loop) run() {
	defer close(l.done)
	if every := l.sweepEvery(); every > 0 {
		l.tick(every)
	}
	events := l.events
	for {
		n := l.poll(events)
		if n == 0 {
			if l.first < len(l.held) {
				l.observe(observeAtOnce)
				continue
			}
			if n = l.wait(); n < 0 {
				break
			}
		}
		if l.look(events[:n]) {
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
		l.sweep()
	}
	l.abandon()
	_ = unix.Close(l.wake)
	_ = l.file.Close()
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
	if l.brisk && l.slept < nap {
		if n := l.nap(l.events); n > 0 {
			return n
		}
	}
	begun := stamp.Now()
	if l.raw.Read(l.try) != nil {
		return -1
	}
	if l.slept = stamp.Now().Sub(begun); l.brisk && l.slept < nap {
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

func (l *Loop) nap(events []unix.EpollEvent) int {
	limit := unix.Timespec{Nsec: int64(nap)}
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	switch errno {
	case 0:
		return int(n)
	case unix.ENOSYS:
		l.brisk = false // before Linux 5.11
	}
	return 0
}

// look finds the streams of the events, and the calls that came; closed reports
// that the loop is to end.
func (l *Loop) look(events []unix.EpollEvent) (closed bool) {
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
	closed = l.closed
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
		l.awaited(s, false)
	}
	for _, c := range cancels {
		if !c.s.over {
			l.finish(c.s, End{Err: c.err})
		}
	}
	return closed
}

// engine receives what an engine has sent, and forwards it.
func (l *Loop) engine(s *Stream) {
	if len(s.pending) > 0 {
		return // of the batch in which the client's socket was full
	}
	if l.used+receiveRoom > len(l.buf) {
		l.observe(len(l.held))
	}
	p := l.buf[l.used : l.used+receiveRoom]
	n, at, src, err := s.Up.Recv(l.receiver, p)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return
	case errors.Is(err, io.EOF):
		l.finish(s, End{Err: io.ErrUnexpectedEOF})
		return
	case err != nil:
		l.finish(s, End{Err: err})
		return
	}
	s.quiet = max(s.quiet, at) // what waited for a slow client came long ago
	tail, used, spans, err := s.Up.Scan(p[:n], l.spans[:0])
	l.spans = spans
	over, end := s.forward(s.outgoing(p, tail, p[tail:used]), at, err)
	if data := compact(p, spans); len(data) > 0 {
		l.held = append(l.held, held{s, data, at, src})
		l.used += len(data)
	}
	if over {
		l.finish(s, end)
	} else if len(s.pending) > 0 {
		l.pause(s)
	}
}

// outgoing returns what the client gets of a read: chunks, p[:tail], and, when
// the body has ended, the trailer section. That is the engine's own where it
// holds no field and is whole in this read; section is what of it is here.
func (s *Stream) outgoing(p []byte, tail int, section []byte) []byte {
	if !s.Up.Ended() {
		return p[:tail]
	}
	s.whole = true
	fields, err := s.Up.Trailer()
	if len(fields) == 0 && err == nil && len(section) == len(blank) {
		return p[:tail+len(section)]
	}
	var trailer []byte
	if err == nil && len(fields) > 0 {
		trailer = s.Sink.Trailer(fields)
	}
	return append(append(p[:tail:tail], trailer...), blank...)
}

const blank = "\r\n"

// forward sends what came; what the socket does not take becomes pending. err is
// the framing's.
func (s *Stream) forward(out []byte, at stamp.Instant, err error) (over bool, end End) {
	n, serr := s.Down.Send(out)
	switch {
	case serr != nil && !errors.Is(serr, syscall.EAGAIN):
		return true, End{Gone: true, Err: serr}
	case n < len(out):
		s.pending = append(s.pending, out[n:]...)
		s.arrived, s.since, s.cut = at, stamp.Now(), err
		return false, End{}
	}
	if len(out) > 0 {
		s.Sink.Left(at, stamp.Now())
	}
	return s.judge(err)
}

// judge says whether what was sent was the last.
func (s *Stream) judge(err error) (over bool, end End) {
	switch {
	case s.whole:
		return true, End{Whole: true}
	case err != nil:
		return true, End{Err: err}
	}
	return false, End{}
}

// compact moves the spans of p to its front.
func compact(p []byte, spans []upstream.Span) []byte {
	n := 0
	for _, s := range spans {
		n += copy(p[n:], p[s.From:s.To])
	}
	return p[:n]
}

// pause stops reading the engine until the client has taken what is pending.
func (l *Loop) pause(s *Stream) {
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, s.Up.FD(), nil)
	if err := l.watchClient(s, unix.EPOLL_CTL_MOD); err != nil {
		l.finish(s, End{Err: err})
	}
}

// awaited ends the wait for a client: it has sent something, or left, or is no
// longer waited for.
func (l *Loop) awaited(s *Stream, sends bool) {
	s.over = true
	l.mu.Lock()
	l.remove(s)
	l.mu.Unlock()
	if sends {
		go s.next(s.Down)
		return
	}
	_ = s.Down.Close()
}

// client handles a client that has room, or has left.
func (l *Loop) client(s *Stream, events uint32) {
	if s.next != nil {
		// One may send a request and close its side behind it.
		l.awaited(s, events&unix.EPOLLIN != 0 && s.Down.Readable())
		return
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		l.finish(s, End{Gone: true})
		return
	}
	if len(s.pending) == 0 {
		return
	}
	n, err := s.Down.Send(s.pending)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		l.finish(s, End{Gone: true, Err: err})
		return
	}
	if s.pending = s.pending[n:]; len(s.pending) > 0 {
		return
	}
	s.pending = nil
	s.Sink.Left(s.arrived, stamp.Now())
	over, end := s.judge(s.cut)
	if !over {
		s.quiet = stamp.Now()
		err := l.watchClient(s, unix.EPOLL_CTL_MOD)
		if err == nil {
			err = l.watchEngine(s)
		}
		over, end = err != nil, End{Err: err}
	}
	if over {
		l.finish(s, end)
	}
}

// observe tells the sinks of up to n reads that were forwarded.
func (l *Loop) observe(n int) {
	for ; n > 0 && l.first < len(l.held); n-- {
		h := &l.held[l.first]
		h.s.Sink.Observe(h.data, h.at, h.src)
		*h = held{}
		l.first++
	}
	if l.first == len(l.held) {
		l.held, l.first, l.used = l.held[:0], 0, 0
	}
}

// finish takes a stream out of the loop; what was forwarded of it is observed
// first.
func (l *Loop) finish(s *Stream, end End) {
	l.observe(len(l.held))
	s.over = true
	l.mu.Lock()
	l.remove(s)
	l.mu.Unlock()
	l.ended(s, end)
}

// ended is a stream on its way out, and how it ended.
type ended struct {
	s   *Stream
	end End
}

// ended hands a stream to the goroutine that tells the sinks. One for all of
// them: the streams of a decode step end together, and each would start its own.
func (l *Loop) ended(s *Stream, end End) {
	l.endsMu.Lock()
	defer l.endsMu.Unlock()
	l.ends = append(l.ends, ended{s, end})
	if !l.telling {
		l.telling = true
		go l.tell()
	}
}

// tell empties the queue of streams that ended.
func (l *Loop) tell() {
	for {
		l.endsMu.Lock()
		ends := l.ends
		l.ends = nil
		l.telling = len(ends) > 0
		l.endsMu.Unlock()
		if len(ends) == 0 {
			return
		}
		for _, e := range ends {
			e.s.Sink.Ended(e.end)
		}
	}
}

// sweepEvery is how often the limits are looked at.
func (l *Loop) sweepEvery() time.Duration {
	every := time.Duration(0)
	for _, d := range []time.Duration{l.limits.Idle, l.limits.Write, l.limits.Await} {
		if d > 0 && (every == 0 || d/8 < every) {
			every = d / 8
		}
	}
	if every == 0 {
		return 0
	}
	return min(max(every, 2*time.Millisecond), time.Second)
}

// sweep ends the streams that are over a limit.
func (l *Loop) sweep() {
	every := l.sweepEvery()
	now := stamp.Now()
	if every == 0 || now.Sub(l.swept) < every {
		return
	}
	l.swept = now
	for i := 0; ; i++ {
		l.mu.Lock()
		if i >= len(l.streams) {
			l.mu.Unlock()
			return
		}
		s := l.streams[i]
		l.mu.Unlock()
		switch {
		case s == nil:
		case s.next != nil:
			if l.limits.Await > 0 && now.Sub(s.quiet) >= l.limits.Await {
				l.awaited(s, false)
			}
		case len(s.pending) > 0:
			if l.limits.Write > 0 && now.Sub(s.since) >= l.limits.Write {
				l.finish(s, End{Gone: true, Err: errSlow})
			}
		case l.limits.Idle > 0 && now.Sub(s.quiet) >= l.limits.Idle:
			l.finish(s, End{Err: os.ErrDeadlineExceeded})
		}
	}
}

var errClosed = errors.New("the relay is closed")

// abandon cuts what is left when the loop ends.
func (l *Loop) abandon() {
	l.mu.Lock()
	l.closed = true
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
		l.observe(len(l.held))
		l.ended(s, End{Err: errClosed})
	}
}
