//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// socket is one of the loop's: a client, or a connection to an engine.
type socket struct {
	raw    *stamp.Raw
	client bool
	s      *Stream          // nil of a client between two requests, and of an idle engine
	to     *upstream.Client // of a connection that the loop has made
	quiet  stamp.Instant    // since when there is no s
	fresh  bool             // a client that has sent nothing

	slot uint32
	gen  uint32
	mask uint32 // the events asked for; 0: it is not in the set
	in   bool   // it has a slot
}

// An event carries the socket's slot, and the generation that tells it from the one
// before in its slot. Listeners have the slots below wakeSlot.
const wakeSlot = -1

// What is asked for. Errors need no asking, but a mask must not be empty.
const (
	sends  = unix.EPOLLIN
	takes  = unix.EPOLLOUT
	leaves = unix.EPOLLRDHUP
	broken = unix.EPOLLERR
)

// enter gives a socket a slot and puts it into the set; the caller holds mu.
func (l *Loop) enter(k *socket, mask uint32) error {
	if n := len(l.free); n > 0 {
		k.slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		k.slot = uint32(len(l.sockets))
		l.sockets, l.gens = append(l.sockets, nil), append(l.gens, 0)
	}
	l.gens[k.slot]++
	k.gen, k.in = l.gens[k.slot], true
	l.sockets[k.slot] = k
	if err := l.ask(k, mask); err != nil {
		l.remove(k)
		return err
	}
	return nil
}

// remove takes a socket out, if it is in; the caller holds mu.
func (l *Loop) remove(k *socket) {
	if !k.in {
		return
	}
	// Explicitly, since it may live on under another descriptor, and would stay in
	// the set.
	_ = l.ask(k, 0)
	k.in = false
	l.sockets[k.slot] = nil
	l.free = append(l.free, k.slot)
}

// ask says which events of a socket are wanted.
func (l *Loop) ask(k *socket, mask uint32) error {
	op := unix.EPOLL_CTL_MOD
	switch {
	case mask == k.mask:
		return nil
	case mask == 0:
		op = unix.EPOLL_CTL_DEL
	case k.mask == 0:
		op = unix.EPOLL_CTL_ADD
	}
	k.mask = mask
	return control(l.epoll, op, k.raw.FD(), mask, int32(k.slot), k.gen)
}

// stirs reports whether the socket has now what is asked for.
func (k *socket) stirs() bool {
	if k.mask == 0 {
		return false // poll would tell of errors all the same
	}
	p := [1]unix.PollFd{{Fd: int32(k.raw.FD()), Events: int16(k.mask)}} // EPOLL's bits are POLL's
	n, err := unix.Poll(p[:], 0)
	return n > 0 && err == nil
}

func control(set, op, fd int, events uint32, place int32, gen uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: place, Pad: int32(gen)}
	if err := unix.EpollCtl(set, op, fd, &ev); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// out is remove, from the loop.
func (l *Loop) out(k *socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(k)
}

// drop closes a socket that has no stream.
func (l *Loop) drop(k *socket) {
	l.out(k)
	_ = k.raw.Close()
	if k.to != nil {
		k.to.Closed()
	}
}

// leaving is what a stream asks for of its client beside errors.
func (s *Stream) leaving() uint32 {
	if s.StayHalfClosed {
		return broken
	}
	return leaves
}
