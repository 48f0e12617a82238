package stamp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Watcher tells which of the watched peers have left.
type Watcher struct {
	mu      sync.Mutex
	epoll   *os.File // nil until the first Watch
	raw     syscall.RawConn
	done    chan struct{} // closed when the goroutine has ended
	closed  bool
	gen     uint32
	watched map[int32]*Watched // by fd
}

// Watched is one connection in the set. gen tells it from an earlier one of a
// socket that had the same fd: events carry it.
type Watched struct {
	w   *Watcher
	fd  int32
	gen uint32

	mu   sync.Mutex // held while gone runs
	left bool       // the peer's leaving was seen; there is one event of it
	gone func()     // nil while nobody wants to know
}

// NewWatcher returns a Watcher. Close ends it.
func NewWatcher() (*Watcher, error) {
	return &Watcher{watched: make(map[int32]*Watched)}, nil
}

// Add puts c into the set, for as long as it lives: what it costs, a system call,
// is paid once a connection. Nil for a c without a socket, or one that cannot be
// watched.
func (w *Watcher) Add(c net.Conn) *Watched {
	raw, ok := socketOf(c)
	if !ok {
		return nil
	}
	e := &Watched{w: w}
	var err error
	if ctl := raw.Control(func(s uintptr) {
		e.fd = int32(s)
		err = w.add(e.fd, e)
	}); ctl != nil || err != nil {
		return nil
	}
	return e
}

// Arm calls gone, once and on the Watcher's goroutine, when the peer has closed
// its side: entirely, half, or by a reset; before it returns if it has already.
// gone must be brief and must not call a method of e. A nil e never calls it.
func (e *Watched) Arm(gone func()) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left {
		gone()
		return
	}
	e.gone = gone
}

// Disarm ends what Arm began: once it has returned gone neither runs nor will run.
func (e *Watched) Disarm() {
	if e == nil {
		return
	}
	e.mu.Lock()
	e.gone = nil
	e.mu.Unlock()
}

// Remove takes the connection out of the set; call it before c is closed.
func (e *Watched) Remove() {
	if e == nil {
		return
	}
	e.w.remove(e.fd, e)
	e.Disarm()
}

// Watch is Add and Arm; stop is Disarm and Remove.
func (w *Watcher) Watch(c net.Conn, gone func()) (stop func()) {
	e := w.Add(c)
	e.Arm(gone)
	return e.Remove
}

func (w *Watcher) add(fd int32, e *Watched) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.open(); err != nil {
		return err
	}
	w.gen++
	e.gen = w.gen
	ev := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: fd, Pad: int32(e.gen)}
	err := w.control(unix.EPOLL_CTL_ADD, fd, &ev)
	if errors.Is(err, unix.EEXIST) {
		err = w.control(unix.EPOLL_CTL_MOD, fd, &ev)
	}
	if err == nil {
		w.watched[fd] = e
	}
	return err
}

func (w *Watcher) remove(fd int32, e *Watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[fd] == e {
		delete(w.watched, fd)
		// Fails if the socket was closed before, which took it out of the set.
		_ = w.control(unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// control is epoll_ctl; the caller holds w.mu.
func (w *Watcher) control(op int, fd int32, ev *unix.EpollEvent) error {
	var err error
	if ctl := w.raw.Control(func(ep uintptr) { err = unix.EpollCtl(int(ep), op, int(fd), ev) }); ctl != nil {
		return ctl
	}
	return err
}

// open makes the epoll set and starts the goroutine; the caller holds w.mu.
// The set is a non-blocking file of its own in the runtime's poller, so that
// waiting takes no thread and closing it ends the wait.
func (w *Watcher) open() error {
	if w.closed {
		return net.ErrClosed
	}
	if w.epoll != nil {
		return nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("epoll set: %w", err)
	}
	epoll := os.NewFile(uintptr(fd), "epoll")
	raw, err := epoll.SyscallConn()
	if err != nil {
		_ = epoll.Close()
		return err
	}
	w.epoll, w.raw, w.done = epoll, raw, make(chan struct{})
	go w.run(raw, w.done)
	return nil
}

func (w *Watcher) run(raw syscall.RawConn, done chan struct{}) {
	defer close(done)
	events := make([]unix.EpollEvent, 64)
	for {
		var n int
		var err error
		wait := raw.Read(func(ep uintptr) bool {
			n, err = unix.EpollWait(int(ep), events, 0)
			return n != 0 // 0: park until an event comes; −1: an error
		})
		if wait != nil {
			return // closed
		}
		if err != nil {
			if err == unix.EINTR {
				continue
			}
			return
		}
		for _, ev := range events[:n] {
			w.tell(ev.Fd, uint32(ev.Pad))
		}
	}
}

func (w *Watcher) tell(fd int32, gen uint32) {
	w.mu.Lock()
	e := w.watched[fd]
	w.mu.Unlock()
	if e == nil || e.gen != gen {
		return // of a socket that is no longer watched
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = true
	if gone := e.gone; gone != nil {
		e.gone = nil
		gone()
	}
}

// Close ends all watches and returns when the goroutine has ended.
func (w *Watcher) Close() {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	clear(w.watched)
	epoll, done := w.epoll, w.done
	w.mu.Unlock()
	if epoll == nil {
		return
	}
	if first {
		_ = epoll.Close()
	}
	<-done
}
