//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"
	"io"
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// engine handles what an engine's socket has: bytes, or its end.
func (l *Loop) engine(k *socket) {
	s := k.s
	switch {
	case !k.in: // by what came before in this batch
	case s.stage == connecting:
		l.connected(s)
	case s.stage == waiting:
		l.head(s)
	case len(s.pending) == 0: // else it is of the batch in which the client's socket was full
		l.body(s)
	}
}

// body receives what an engine has sent of a body, and forwards it.
func (l *Loop) body(s *Stream) {
	p := l.buf
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
	over, end := l.forward(s, s.outgoing(p, tail, p[tail:used]), at, err)
	if data := compact(p, spans); len(data) > 0 {
		l.hold(s, data, at, src)
	}
	l.went(s, over, end)
}

// went goes on after something was sent.
func (l *Loop) went(s *Stream, over bool, end End) {
	if over {
		l.finish(s, end)
	} else if len(s.pending) > 0 {
		l.pause(s)
	}
}

// begin sends the head, together with what came of the body with the engine's: data
// is that, without its framing.
func (l *Loop) begin(s *Stream, head []byte, spans []upstream.Span) (data []byte, over bool, end End) {
	early := s.Up.Early
	s.Up.Early = nil
	tail, used, spans, err := s.Up.Scan(early, spans[:0])
	out := s.outgoing(append(head, early[:used]...), len(head)+tail, early[tail:used])
	over, end = l.forward(s, out, s.Up.At, err)
	return compact(early, spans), over, end
}

// outgoing returns what the client gets of a read: chunks, p[:tail], and, when
// the body has ended, the trailer section. That is the engine's own where it
// holds no field and is whole in this read; section is what of it is here.
func (s *Stream) outgoing(p []byte, tail int, section []byte) []byte {
	if !s.Up.Ended() {
		return p[:tail]
	}
	s.whole = true
	if !s.Up.Chunked() {
		return p[:tail]
	}
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
func (l *Loop) forward(s *Stream, out []byte, at stamp.Instant, err error) (over bool, end End) {
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
		l.front.Left(at, stamp.Now())
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
	_ = l.ask(s.up, 0)
	if err := l.ask(s.down, s.down.mask|takes); err != nil {
		l.finish(s, End{Err: err})
	}
}

// client handles a client that sends, has room, or has left.
func (l *Loop) client(k *socket, events uint32) {
	s := k.s
	if !k.in {
		return // by what came before in this batch
	}
	if s == nil {
		l.request(k)
		return
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		l.finish(s, End{Gone: true})
		return
	}
	if events&unix.EPOLLIN != 0 {
		// A request behind the one that is being answered: it is received then.
		if err := l.ask(k, k.mask&^sends|broken); err != nil {
			l.finish(s, End{Err: err})
			return
		}
	}
	if events&unix.EPOLLOUT != 0 && len(s.pending) > 0 {
		l.push(s)
	}
}

// push sends what is pending.
func (l *Loop) push(s *Stream) {
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
	l.front.Left(s.arrived, stamp.Now())
	over, end := s.judge(s.cut)
	if !over {
		s.quiet = stamp.Now()
		err := l.ask(s.down, s.down.mask&^takes)
		if err == nil {
			err = l.ask(s.up, sends)
		}
		over, end = err != nil, End{Err: err}
	}
	if over {
		l.finish(s, end)
	}
}

// muchAtOnce is the size from which on a read is no token but a piece of a large
// body. Held back, it would push out what waits.
const muchAtOnce = 16 << 10

// hold keeps what was forwarded, to be observed later. Where there is no more room all
// that is due is observed now.
func (l *Loop) hold(s *Stream, data []byte, at stamp.Instant, src stamp.Source) {
	switch {
	case s.when == Never:
		return
	case len(data) >= muchAtOnce:
		l.backlog.settle(s)
		s.when = s.Sink.Observe(data, at, src)
		return
	case !l.backlog.fits(len(data)):
		l.backlog.observe(math.MaxInt)
		l.backlog.change()
	}
	l.backlog.hold(s, data, at, src)
}
