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
	watched map[int32]*watch // by fd
}

// watch is one registration. gen tells it from an earlier one of a socket that
// had the same fd: events carry it.
type watch struct {
	gen  uint32
	mu   sync.Mutex // held while gone runs
	over bool       // stopped, or told
	gone func()
}

// NewWatcher returns a Watcher. Close ends it.
func NewWatcher() (*Watcher, error) {
	return &Watcher{watched: make(map[int32]*watch)}, nil
}

// Watch calls gone, once and on the Watcher's goroutine, when the peer of c has
// closed its side: entirely, half, or by a reset; at once if it has already.
// gone must be brief and must not call stop.
//
// stop ends the watch: once it has returned gone neither runs nor will run.
// Call it before c is closed. For a c without a socket, or one that cannot be
// watched, stop does nothing and gone is never called.
func (w *Watcher) Watch(c net.Conn, gone func()) (stop func()) {
	raw, ok := socketOf(c)
	if !ok {
		return func() {}
	}
	e := &watch{gone: gone}
	var fd int32
	var err error
	if ctl := raw.Control(func(s uintptr) {
		fd = int32(s)
		err = w.add(fd, e)
	}); ctl != nil || err != nil {
		return func() {}
	}
	return func() { w.remove(fd, e) }
}

func (w *Watcher) add(fd int32, e *watch) error {
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

func (w *Watcher) remove(fd int32, e *watch) {
	w.mu.Lock()
	if w.watched[fd] == e {
		delete(w.watched, fd)
		// Fails if the socket was closed before, which took it out of the set.
		_ = w.control(unix.EPOLL_CTL_DEL, fd, nil)
	}
	w.mu.Unlock()
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
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
	if !e.over {
		e.over = true
		e.gone()
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
