package main

import (
	"fmt"
	"io"
	"os"

	"github.com/streamgauge/streamgauge/cmd/internal/board"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/loadgen"
)

// look is how a run shows its progress.
type look struct {
	quiet bool // not at all
	plain bool // in lines, without a live screen
	alone bool // the process does nothing but measure: see thrifty
}

// view shows a run while it goes on.
type view struct {
	event func(loadgen.Event)
	close func() error // the terminal is as it was before
}

// watch begins to show a run: on a live screen where there is a terminal for it,
// else in lines.
func (s streams) watch(l look, sub board.Subject, live *loadgen.Live) view {
	lines := &screen{w: s.err, quiet: l.quiet, live: !l.plain && ansi(s.err)}
	if l.quiet || l.plain || !s.terminal() {
		s.stop.tell(func() {
			fmt.Fprintln(s.err, "loadgen: stopping; what was measured is saved and reported, press Ctrl-C again to leave at once")
		}, nil)
		stop := lines.watch(live)
		return view{lines.event, func() error { stop(); s.stop.tell(nil, nil); return nil }}
	}
	var keys *os.File
	if in, ok := s.in.(*os.File); ok && program.Terminal(in) {
		keys = in
	}
	b := board.Start(keys, s.err.(*os.File), sub, live, s.stop.ask)
	s.stop.tell(b.Stopping, b.Leave)
	return view{b.Event, func() error {
		err := b.Close()
		s.stop.tell(nil, nil)
		if err != nil {
			return fmt.Errorf("the live screen failed, try --no-tui: %w", err)
		}
		return nil
	}}
}

// terminal reports whether a live screen may be drawn: results and progress both
// go to a terminal that knows its control sequences, colour is not refused, and
// we are the job in its foreground, which alone may read its keys.
func (s streams) terminal() bool {
	return program.Terminal(s.out) && ansi(s.err) && os.Getenv("NO_COLOR") == "" && program.Foreground(s.err)
}

// ansi reports whether w is a terminal that knows more than lines.
func ansi(w io.Writer) bool {
	t := os.Getenv("TERM")
	return program.Terminal(w) && t != "" && t != "dumb"
}
