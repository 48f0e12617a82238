//go:build linux

package stamp

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newWatcher(t *testing.T) *Watcher {
	t.Helper()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// told waits for gone; the deadline only bounds a failure.
func told(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	select {
	case <-ch:
	case <-ctx.Done():
		t.Fatal("not told in 5 s that the peer has left")
	}
}

func TestWatcherTellsOfALeavingPeer(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		leave        func(peer *net.TCPConn)
		before       bool // leave before Watch
	}{
		{"full close", "", func(p *net.TCPConn) { p.Close() }, false},
		{"half close", "looks like a full one from here", func(p *net.TCPConn) { p.CloseWrite() }, false},
		{"reset", "", func(p *net.TCPConn) { p.SetLinger(0); p.Close() }, false},
		{"behind unread bytes", "a peek would see the bytes only", func(p *net.TCPConn) { p.Write([]byte("pipelined")); p.Close() }, false},
		{"before the watch", "the edge has passed", func(p *net.TCPConn) { p.Close() }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWatcher(t)
			peer, c := tcpPair(t, false)
			gone := make(chan struct{})
			if tt.before {
				tt.leave(peer)
			}
			stop := w.Watch(c, func() { close(gone) }) // a second call would panic
			if !tt.before {
				tt.leave(peer)
			}
			told(t, gone)
			stop()
			stop()
		})
	}
}

func TestWatcherIsSilent(t *testing.T) {
	w := newWatcher(t)
	var calls atomic.Int32
	peer, c := tcpPair(t, false)
	stop := w.Watch(c, func() { calls.Add(1) })
	peer.Write([]byte("data is no leaving"))
	passed(t, w)
	stop()
	peer.Close()
	passed(t, w)
	if got := calls.Load(); got != 0 {
		t.Errorf("got %d calls for data and after stop, want 0", got)
	}
}

// passed returns when w has handled everything before: a connection that
// leaves now is told after it.
func passed(t *testing.T, w *Watcher) {
	t.Helper()
	peer, c := tcpPair(t, false)
	gone := make(chan struct{})
	defer w.Watch(c, func() { close(gone) })()
	peer.Close()
	told(t, gone)
}

func TestWatcherServesAConnAgainAndAgain(t *testing.T) {
	w := newWatcher(t)
	peer, c := tcpPair(t, false)
	for range 100 { // requests on one keep-alive connection
		w.Watch(c, func() { t.Error("got a call of a stopped watch") })()
	}
	gone := make(chan struct{})
	defer w.Watch(c, func() { close(gone) })()
	peer.Close()
	told(t, gone)
}

// fdOf returns the descriptor of c.
func fdOf(t *testing.T, c *Conn) (fd uintptr) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(f uintptr) { fd = f })
	return fd
}

// The kernel gives the lowest free descriptor, so a new connection often has
// that of one just closed. Stopping the old watch must not end the new one.
func TestWatcherSurvivesReuseOfDescriptors(t *testing.T) {
	w := newWatcher(t)
	for range 50 {
		_, c := tcpPair(t, false)
		fd := fdOf(t, c)
		stopOld := w.Watch(c, func() { t.Error("got a call for the connection that was closed here") })

		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		peer, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		accepted, err := ln.Accept() // takes the descriptor just freed
		if err != nil {
			t.Fatal(err)
		}
		next := Wrap(accepted, false)
		if got := fdOf(t, next); got != fd {
			t.Fatalf("the new connection has descriptor %d, want %d of the closed one", got, fd)
		}
		gone := make(chan struct{})
		stop := w.Watch(next, func() { close(gone) })
		stopOld()
		peer.Close()
		told(t, gone)
		stop()
		next.Close()
		ln.Close()
	}
}

// An event fetched for an old generation of a descriptor is dropped.
func TestWatcherDropsStaleEvents(t *testing.T) {
	w := newWatcher(t)
	_, c := tcpPair(t, false)
	defer w.Watch(c, func() { t.Error("got a call by an event of another generation") })()
	w.tell(int32(fdOf(t, c)), w.gen-1)
}

func TestStopWaitsForGone(t *testing.T) {
	w := newWatcher(t)
	peer, c := tcpPair(t, false)
	running, release := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	stop := w.Watch(c, func() {
		close(running)
		<-release
		ended.Store(true)
	})
	peer.Close()
	told(t, running)
	go close(release)
	stop()
	if !ended.Load() {
		t.Error("stop returned while gone was running")
	}
}

func TestCloseOfWatcher(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	_, c := tcpPair(t, false)
	stop := w.Watch(c, func() {})
	w.Close()
	w.Close()
	stop()
	w.Watch(c, func() { t.Error("got a call of a closed Watcher") })()
}

// In a bubble there are no sockets, and no goroutine may wait outside it.
func TestWatcherInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher(t)
		a, b := net.Pipe()
		stop := w.Watch(Wrap(a, false), func() { t.Error("got a call for a pipe") })
		b.Close()
		<-time.After(time.Second)
		stop()
		a.Close()
	})
}

func BenchmarkWatchAndStop(b *testing.B) {
	w, err := NewWatcher()
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	_, c := tcpPair(b, false)
	b.ReportAllocs()
	for b.Loop() {
		w.Watch(c, func() {})()
	}
}

func TestWatcherLeavesNoDescriptors(t *testing.T) {
	before := descriptors(t)
	for range 20 {
		w := newWatcher(t)
		_, c := tcpPair(t, false)
		w.Watch(c, func() {})
		c.Close()
		w.Close()
	}
	// tcpPair's dialing ends stay open until the cleanup.
	if got := descriptors(t) - before; got > 20+2 {
		t.Errorf("got %d descriptors more after 20 watchers, want at most 22", got)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

// A connection is put into the set once and watched during each of its requests.
func TestWatchedAgain(t *testing.T) {
	w := newWatcher(t)
	peer, c := tcpPair(t, false)
	e := w.Add(c)
	if e == nil {
		t.Fatal("a TCP connection cannot be watched")
	}
	for range 3 {
		e.Arm(func() { t.Error("told of a peer that is there") })
		e.Disarm()
	}
	gone := make(chan struct{})
	e.Arm(func() { close(gone) })
	_ = peer.Close()
	told(t, gone)
	e.Disarm()

	again := false
	e.Arm(func() { again = true }) // before it returns
	if !again {
		t.Error("the peer left while nobody wanted to know, and then nobody was told")
	}
	e.Remove()
	e.Remove()

	// Whoever gets the number of a closed socket next is another connection.
	_ = c.Close()
	peer2, c2 := tcpPair(t, false)
	e2 := w.Add(c2)
	e.Remove()
	gone2 := make(chan struct{})
	e2.Arm(func() { close(gone2) })
	_ = peer2.Close()
	told(t, gone2)
	e2.Remove()

	var none *Watched // of a connection without a socket
	none.Arm(func() { t.Error("told of nothing") })
	none.Disarm()
	none.Remove()
}
