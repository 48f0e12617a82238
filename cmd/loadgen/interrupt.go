package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/streamgauge/streamgauge/cmd/internal/program"
)

// stopper turns wishes to stop, by a signal or by a key, into the end of the
// program: the first cancels the context, so that what was measured is saved and
// reported, the second leaves at once.
type stopper struct {
	cancel context.CancelFunc

	mu    sync.Mutex
	asked bool
	heard func() // shows that the first was heard
	leave func() // gives the terminal back before the second ends the program
}

// heed runs a command that ends well when its context does: signals are caught
// while it runs. What it could not do because of them is an interruption, not a
// failure.
func (s streams) heed(parent context.Context, f func(context.Context, streams) error) error {
	ctx, stop, release := catchSignals(parent)
	defer release()
	s.stop = stop
	err := f(ctx, s)
	var exit *program.Exit
	if err == nil || ctx.Err() == nil || errors.As(err, &exit) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("stopped")
	}
	return &program.Exit{Code: program.Interrupted, Err: err}
}

// catchSignals returns a context that the first SIGINT, SIGTERM or SIGHUP
// cancels. The stopper must be released.
func catchSignals(parent context.Context) (ctx context.Context, s *stopper, release func()) {
	ctx, cancel := context.WithCancel(parent)
	s = &stopper{cancel: cancel}
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup wants the run to outlive the terminal
		signal.Notify(caught, syscall.SIGHUP)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-caught:
				s.ask()
			case <-quit:
				return
			}
		}
	}()
	return ctx, s, func() { signal.Stop(caught); close(quit); <-done; cancel() }
}

// ask is one wish to stop.
func (s *stopper) ask() {
	s.mu.Lock()
	again, heard, leave := s.asked, s.heard, s.leave
	s.asked = true
	s.mu.Unlock()
	if again {
		if leave != nil {
			leave()
		}
		os.Exit(program.Interrupted)
	}
	s.cancel()
	if heard != nil {
		heard()
	}
}

// tell sets who shows that a wish was heard and who gives the terminal back; nil:
// nobody.
func (s *stopper) tell(heard, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard, s.leave = heard, leave
}
