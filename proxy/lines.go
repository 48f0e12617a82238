package proxy

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// linesWaiting is how many lines may wait for the writer of a log before they are
	// dropped.
	linesWaiting = 4096
	// lastLines is how long Close waits for a writer that takes none.
	lastLines = time.Second
)

// Lines passes a log on to its writer from a goroutine of its own: a reader of the log
// that has stopped must not stop requests. A Write is one line; what finds no room is
// dropped.
type Lines struct {
	w       io.Writer
	queue   chan []byte
	closing chan struct{}
	once    sync.Once
	done    chan struct{}
	dropped atomic.Int64
}

// NewLines returns Lines for w.
func NewLines(w io.Writer) *Lines {
	l := &Lines{w: w, queue: make(chan []byte, linesWaiting), closing: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

func (l *Lines) run() {
	defer close(l.done)
	for {
		select {
		case line := <-l.queue:
			l.pass(line)
		case <-l.closing:
			for {
				select {
				case line := <-l.queue:
					l.pass(line)
				default:
					return
				}
			}
		}
	}
}

func (l *Lines) pass(line []byte) {
	if _, err := l.w.Write(line); err != nil {
		l.dropped.Add(1)
	}
}

// Write takes a copy of p, and never waits.
func (l *Lines) Write(p []byte) (int, error) {
	select {
	case l.queue <- slices.Clone(p):
	default:
		l.dropped.Add(1)
	}
	return len(p), nil
}

// Dropped returns how many lines were lost, for want of room or by an error of the
// writer.
func (l *Lines) Dropped() int64 { return l.dropped.Load() }

// Close lets the writer have what waits, for a second at most. A line that is written
// after it is lost.
func (l *Lines) Close() {
	l.once.Do(func() { close(l.closing) })
	last := time.NewTimer(lastLines)
	defer last.Stop()
	select {
	case <-l.done:
	case <-last.C:
	}
}
