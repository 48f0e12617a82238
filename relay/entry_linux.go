//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
)

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
		end.At = stamp.Now()
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

// finish takes a stream out of the loop; what was forwarded of it is observed
// first, and nothing of others: their tokens may be ready.
func (l *Loop) finish(s *Stream, end End) {
	end.At = stamp.Now()
	l.settle(s)
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
		l.beside.Go(l.tell)
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
