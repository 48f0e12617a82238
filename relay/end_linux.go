//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"slices"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// fail ends a stream for which err speaks. Of one whose client has got nothing the
// front answers.
func (l *Loop) fail(s *Stream, err error) {
	switch s.stage {
	case connecting:
		s.x.To.Unreached()
		l.unconnected(s, err)
	case waiting:
		op := upstream.OpHeaderWait
		if s.x.Pending.Begun() {
			op = upstream.OpHeader
		}
		l.back(s, s.x.failure(op, err))
	default:
		l.finish(s, End{Err: err})
	}
}

// finish takes a stream out of the loop. What was forwarded of it is observed when its
// end is told: the tokens of others may be ready.
func (l *Loop) finish(s *Stream, end End) {
	end.At = stamp.Now()
	if s.stage == waiting {
		end.Sent, end.Retries = s.x.Pending.Sent, s.x.Pending.Retries
	}
	s.over = true
	l.mu.Lock()
	l.left(s)
	l.mu.Unlock()
	l.ends = append(l.ends, ended{s, end})

	switch {
	case s.stage != inBody:
		l.unsent(s)
	case s.x != nil && end.Whole && s.Up.Reusable():
		l.park(s.up, end.At)
	default:
		l.out(s.up)
		s.releaseEngine(end)
	}
	k := s.down
	if !l.keeps(s, end) {
		return
	}
	k.s, k.quiet = nil, end.At
	switch {
	case l.ask(k, sends|leaves) != nil:
		l.drop(k)
	case l.isDismissed():
		l.letGo(k)
	}
}

// left notes a stream that the loop no longer has, and forgets who called it: the sink
// may use it again when it is told the end. The caller holds mu.
func (l *Loop) left(s *Stream) {
	s.live = false
	l.open--
	if len(l.cancels) > 0 {
		l.cancels = slices.DeleteFunc(l.cancels, func(c cancel) bool { return c.s == s })
	}
}

// releaseEngine gives the engine's connection back, or aborts it.
func (s *Stream) releaseEngine(end End) {
	if end.Whole {
		s.Up.Put()
	} else {
		s.Up.Drop()
	}
}

// keeps reports whether the client's connection is kept for its next request; else it
// has left the loop, and is closed or the front's.
func (l *Loop) keeps(s *Stream, end End) bool {
	switch {
	case end.Whole && !s.Last && len(s.Pipelined) == 0:
		return true
	case end.Whole && !s.Last:
		l.out(s.down)
		l.front.Serve(s.Down, s.Pipelined, nil) // its next request is here already
	case !end.Whole && s.Up != nil && s.Up.Ending():
		l.out(s.down)
		_ = s.Down.Abort()
	default:
		l.out(s.down)
		if s.Down.Readable() {
			l.front.Linger(s.Down)
		} else {
			_ = s.Down.Close()
		}
	}
	return false
}

func (l *Loop) isDismissed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dismissed
}
