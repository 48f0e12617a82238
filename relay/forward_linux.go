//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

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
		if n > 0 {
			s.since = stamp.Now() // it reads
		}
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
		l.held[l.first].observe()
		l.first++
	}
	if l.first == len(l.held) {
		l.held, l.first, l.used = l.held[:0], 0, 0
	}
}

// settle observes what was forwarded of one stream.
func (l *Loop) settle(s *Stream) {
	for i := l.first; i < len(l.held); i++ {
		if l.held[i].s == s {
			l.held[i].observe()
		}
	}
}

func (h *held) observe() {
	if h.s != nil {
		h.s.Sink.Observe(h.data, h.at, h.src)
	}
	*h = held{}
}
