package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/streamgauge/streamgauge/cmd/internal/board"
	"github.com/streamgauge/streamgauge/loadgen"
)

// screen tells the progress of a run in lines: one when a step begins and one
// when it ends, and where live a last one that is renewed each second.
type screen struct {
	w     io.Writer
	quiet bool
	live  bool

	mu    sync.Mutex // of the lines: events and the ticker both write
	drawn bool       // the live line stands on the screen
	step  int        // last one announced
}

// eraseLine moves to the line's start and clears it (ECMA-48 CR, EL).
const eraseLine = "\r\x1b[K"

func (s *screen) event(e loadgen.Event) {
	switch {
	case e.Cell != nil:
		s.line(board.Summary(e))
	case e.Message != "":
		s.line(e.Message)
	case e.Of > 0 && e.N > s.step:
		s.step = e.N
		s.line(fmt.Sprintf("[%d/%d] %s …", e.N, e.Of, board.StepName(e.Step)))
	}
}

// line prints one line, above the live one.
func (s *screen) line(text string) {
	if s.quiet {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn {
		fmt.Fprint(s.w, eraseLine)
		s.drawn = false
	}
	fmt.Fprintln(s.w, board.Printable(text))
}

// watch renews the live line each second until stop is called.
func (s *screen) watch(l *loadgen.Live) (stop func()) {
	if s.quiet || !s.live {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.draw(l.Snapshot())
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done; s.erase() }
}

func (s *screen) draw(n loadgen.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = true
	fmt.Fprintf(s.w, "%s  %s: %d active, %d decoding, %.0f tok/s", eraseLine, n.Stage, n.Active, n.Decoding, n.TokS)
	if n.Loops > 0 {
		fmt.Fprintf(s.w, ", %d looped", n.Loops)
	}
	if n.Failed > 0 {
		fmt.Fprintf(s.w, ", %d failed", n.Failed)
	}
	if n.Left > 0 {
		fmt.Fprintf(s.w, ", %s left", n.Left.Round(time.Second))
	}
}

func (s *screen) erase() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn {
		fmt.Fprint(s.w, eraseLine)
		s.drawn = false
	}
}
