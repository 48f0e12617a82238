//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"github.com/streamgauge/streamgauge/stamp"
)

// Carry takes a stream, whose client gets head first, and then what came of the
// body so far: in one send, from the caller's goroutine. It never fails; what
// goes wrong is told to Ended.
func (l *Loop) Carry(s *Stream, head []byte) {
	s.up, s.down = &socket{raw: s.Up.Raw, s: s}, &socket{raw: s.Down, s: s, client: true}
	s.quiet = stamp.Now()
	data, over, end := l.begin(s, head, nil)
	if len(data) > 0 {
		s.when = s.Sink.Observe(data, s.Up.At, s.Up.Source)
	}
	if !over {
		over, end = l.add(s)
	}
	if over {
		end.At = stamp.Now()
		s.releaseEngine(end)
		if l.keeps(s, end) {
			l.await(s.Down)
		}
		s.Sink.Ended(end)
	}
}

// add enters a stream; the loop may read it before add has returned.
func (l *Loop) add(s *Stream) (over bool, end End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true, End{Err: errClosed}
	}
	client, engine := s.leaving(), uint32(sends)
	if len(s.pending) > 0 {
		client, engine = client|takes, 0
	}
	if err := l.enter(s.down, client); err != nil {
		return true, End{Err: err}
	}
	if err := l.enter(s.up, engine); err != nil {
		l.remove(s.down)
		return true, End{Err: err}
	}
	l.begun(s)
	return false, End{}
}

// begun notes a stream that the loop has; the caller holds mu.
func (l *Loop) begun(s *Stream) {
	s.live = true
	l.open++
	if s.ending != nil {
		l.cancels = append(l.cancels, cancel{s, s.ending})
		l.knock()
	}
}

// Cancel ends a stream with err, from any goroutine. Of one that is over it is no
// matter.
func (l *Loop) Cancel(s *Stream, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.live {
		s.ending = err // it may come yet
		return
	}
	l.cancels = append(l.cancels, cancel{s, err})
	l.knock()
}

// await waits for a client's next request, from any goroutine.
func (l *Loop) await(client *stamp.Raw) {
	k := &socket{raw: client, client: true, quiet: stamp.Now()}
	l.mu.Lock()
	kept := !l.closed && !l.dismissed && l.enter(k, sends|leaves) == nil
	l.mu.Unlock()
	switch {
	case kept:
	case client.Readable():
		l.front.Serve(client, nil, nil) // it has come
	default:
		_ = client.Close()
	}
}

// Listen accepts clients from ln, which is the loop's from then on, until Dismiss.
func (l *Loop) Listen(ln *stamp.RawListener) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.dismissed {
		return ln.Close()
	}
	l.ears = append(l.ears, ln)
	if l.deaf {
		return nil // with the others
	}
	return l.hear(len(l.ears) - 1)
}

// Dismiss ends the listening and closes the clients that are waited for, and those
// that would be. A request that has come is still given to the front. It returns when
// that is done; not to be called by the front.
func (l *Loop) Dismiss() {
	l.mu.Lock()
	l.dismissed = true
	if !l.closed {
		l.knock()
	}
	l.mu.Unlock()
	select {
	case <-l.calm:
	case <-l.done:
	}
}
