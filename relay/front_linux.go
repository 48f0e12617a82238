//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// acceptAtOnce is how many connections are accepted between two looks at the
// sockets: some 100 µs.
const acceptAtOnce = 16

// hear puts a listener into the set; the caller holds mu.
func (l *Loop) hear(ear int) error {
	err := control(l.epoll, unix.EPOLL_CTL_ADD, l.ears[ear].FD(), unix.EPOLLIN|unix.EPOLLEXCLUSIVE, int32(wakeSlot-1-ear), 0)
	if errors.Is(err, unix.EEXIST) {
		return nil // plug could not take it out, or unplug began and did not end
	}
	return err
}

func (l *Loop) accept(ear *stamp.RawListener) {
	for range acceptAtOnce {
		raw, err := ear.Accept()
		if errors.Is(err, syscall.EAGAIN) {
			return
		}
		if err != nil {
			l.front.Refused(err)
			l.plug()
			return
		}
		k := &socket{raw: raw, client: true, fresh: true, quiet: stamp.Now()}
		l.mu.Lock()
		err = l.enter(k, sends|leaves)
		l.mu.Unlock()
		if err != nil {
			l.front.Refused(err)
			_ = raw.Close()
		}
	}
}

// plugFor is how long the loop does not listen after a connection could not be
// accepted.
const plugFor = 20 * time.Millisecond

// plug stops the listening for a moment: without a descriptor the connection that
// waits would be reported on and on.
func (l *Loop) plug() {
	time.AfterFunc(plugFor, func() { l.lookSoon() })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = true
	for _, ear := range l.ears {
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, ear.FD(), nil)
	}
}

// unplug ends what plug began.
func (l *Loop) unplug() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = false
	for i := range l.ears {
		if err := l.hear(i); err != nil {
			l.front.Refused(err)
			l.deaf = true // another time
		}
	}
}

// request receives what a client sends that is waited for.
func (l *Loop) request(k *socket) {
	p := l.buf
	n, _, _, err := k.raw.Recv(l.receiver, p)
	if errors.Is(err, syscall.EAGAIN) {
		return
	}
	if err != nil {
		l.drop(k) // it has left
		return
	}
	k.fresh = false
	room := l.room()
	x := l.front.Request(k.raw, p[:n], room)
	if x == nil {
		l.putRoom(room)
		l.out(k)
		l.front.Serve(k.raw, bytes.Clone(p[:n]), nil)
		return
	}
	s := &x.Stream
	s.x, s.Down, s.Sink, s.down, k.s = x, k.raw, x.Answer, k, s
	l.mu.Lock()
	l.begun(s)
	if s.StayHalfClosed {
		_ = l.ask(k, sends|broken)
	}
	l.mu.Unlock()
	if len(x.Request) == 0 {
		l.back(s, nil)
	} else if up := l.kept(x.To); up != nil {
		l.send(s, up)
	} else {
		l.connect(s)
	}
}

const (
	// keepRooms and keepRoom, in bytes, bound what is kept for requests to come.
	keepRooms = 64
	keepRoom  = 4 << 10
)

// room returns memory for a request, nil if there is none.
func (l *Loop) room() []byte {
	n := len(l.rooms) - 1
	if n < 0 {
		return nil
	}
	room := l.rooms[n]
	l.rooms = l.rooms[:n]
	return room
}

func (l *Loop) putRoom(room []byte) {
	if room != nil && cap(room) <= keepRoom && len(l.rooms) < keepRooms {
		l.rooms = append(l.rooms, room[:0])
	}
}

// kept returns the connection to an engine that was used last, nil when none is open.
func (l *Loop) kept(to *upstream.Client) *socket {
	for {
		l.mu.Lock()
		idle := l.idle[to]
		if len(idle) == 0 {
			l.mu.Unlock()
			return nil
		}
		k := idle[len(idle)-1]
		l.unpark(k)
		l.mu.Unlock()
		if stamp.Now().Sub(k.quiet) < to.IdleLimit() && k.raw.Quiet() {
			return k
		}
		l.drop(k)
	}
}

// park keeps a connection for the next request.
func (l *Loop) park(k *socket, now stamp.Instant) {
	if k.to.IdleLimit() < 0 || l.ask(k, sends) != nil {
		l.drop(k)
		return
	}
	k.s, k.quiet = nil, now
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle[k.to] = append(l.idle[k.to], k)
	k.to.Parked(1)
}

// unpark takes an idle connection; false if it is none. The caller holds mu.
func (l *Loop) unpark(k *socket) bool {
	idle := l.idle[k.to]
	i := slices.Index(idle, k)
	if i >= 0 {
		l.idle[k.to] = slices.Delete(idle, i, i+1)
		k.to.Parked(-1)
	}
	return i >= 0
}

// stale ends an idle connection: its engine has closed it, or has sent what nobody
// asked for, or it has waited too long.
func (l *Loop) stale(k *socket) {
	l.mu.Lock()
	was := l.unpark(k)
	l.mu.Unlock()
	if was {
		l.drop(k)
	}
}

// Spare closes the connection to an engine that has waited longest, from any
// goroutine, and reports whether there was one.
func (l *Loop) Spare(to *upstream.Client) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := l.idle[to]
	if len(idle) == 0 {
		return false
	}
	k := idle[0]
	l.unpark(k)
	l.remove(k)
	_ = k.raw.Close()
	to.Closed()
	return true
}

// connect opens a connection for the request.
func (l *Loop) connect(s *Stream) {
	x := s.x
	if !x.To.Opened() {
		if x.retries > 0 {
			l.unconnected(s, upstream.ErrNoFreeConns)
		} else {
			l.back(s, nil) // the Client may have one that waits
		}
		return
	}
	raw, err := stamp.DialRaw(x.Addr, x.User)
	if err != nil {
		x.To.Closed()
		l.unreached(s, err)
		return
	}
	s.up = &socket{raw: raw, s: s, to: x.To}
	s.stage, s.quiet = connecting, stamp.Now()
	// Through loopback it is up by now, and what is sent first saves a wait.
	up, err := raw.Connected()
	l.mu.Lock()
	if err == nil {
		mask := uint32(takes)
		if up {
			mask = sends
		}
		err = l.enter(s.up, mask)
	}
	l.mu.Unlock()
	switch {
	case err != nil:
		l.unreached(s, err)
	case up:
		l.send(s, s.up)
	}
}

// connected goes on when the connection is up, or never will be.
func (l *Loop) connected(s *Stream) {
	up, err := s.up.raw.Connected()
	if err == nil && !up {
		return
	}
	if err == nil {
		err = l.ask(s.up, sends)
	}
	if err != nil {
		l.unreached(s, err)
		return
	}
	l.send(s, s.up)
}

// unreached is unconnected, but where the engine has a name: that may have another
// address, and the Client asks for it.
func (l *Loop) unreached(s *Stream, err error) {
	if s.x.To.Unreached() && s.x.retries == 0 {
		l.unsent(s)
		l.back(s, nil)
		return
	}
	l.unconnected(s, err)
}

// unconnected gives back a request for which no connection could be made.
func (l *Loop) unconnected(s *Stream, err error) {
	l.back(s, &upstream.Error{Op: upstream.OpConnect, Addr: s.x.To.Addr, Retries: s.x.retries, Err: err})
}

// send sends the request.
func (l *Loop) send(s *Stream, k *socket) {
	x := s.x
	pooled := k.s == nil
	k.s, s.up = s, k
	s.stage, s.quiet = waiting, stamp.Now()
	x.pending = upstream.Pending{Raw: k.raw, Client: x.To, Method: x.Method, Sent: s.quiet, Retries: x.retries, Room: &l.heads, Detached: &x.engine}
	x.Pending = &x.pending
	n, err := k.raw.Send(x.Request)
	switch {
	case err != nil && pooled:
		l.again(s)
	case err != nil:
		l.back(s, x.failure(upstream.OpWrite, err))
	case n < len(x.Request) && x.retries > 0:
		l.back(s, x.failure(upstream.OpWrite, io.ErrShortWrite))
	case n < len(x.Request):
		// The engine has not got a whole request, and another one is sent.
		l.unsent(s)
		l.back(s, nil)
	case !pooled:
		x.Request = nil // nothing will send it again
	}
}

// unsent closes the engine's connection before a response has come.
func (l *Loop) unsent(s *Stream) {
	if k := s.up; k != nil {
		l.out(k)
		_ = k.raw.Abort()
		k.to.Closed()
		s.up, s.x.Pending = nil, nil
	}
}

// again sends the request a second time, on a new connection, since the one that
// had waited was closed before a byte of a response came.
func (l *Loop) again(s *Stream) {
	l.unsent(s)
	s.x.retries = 1
	s.x.To.Retried()
	l.connect(s)
}

// failure is the error of a request that was sent.
func (x *Exchange) failure(op upstream.Op, err error) *upstream.Error {
	return &upstream.Error{Op: op, Addr: x.To.Addr, Retries: x.retries, Sent: x.Pending.Sent, Err: err}
}

// head receives the head of a response.
func (l *Loop) head(s *Stream) {
	x := s.x
	p := l.buf
	n, at, src, err := s.up.raw.Recv(l.receiver, p)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return
	case err != nil && !x.Pending.Begun() && upstream.IsGone(err) && len(x.Request) > 0 && x.retries == 0:
		l.again(s)
		return
	case err != nil && !x.Pending.Begun():
		l.back(s, x.failure(upstream.OpHeaderWait, err))
		return
	case err != nil:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		l.back(s, x.failure(upstream.OpHeader, err))
		return
	}
	h, up, err := x.Pending.Take(p[:n], at, src)
	if err != nil {
		l.back(s, nil)
		return
	}
	if h == nil {
		return
	}
	head, last, ok := x.Answer.Head(h, up.Chunked())
	if !ok {
		x.Pending.Keep(p[:n])
		l.back(s, nil)
		return
	}
	s.Up, s.Last, s.stage = up, last, inBody
	s.quiet = max(s.quiet, at)
	l.putRoom(x.Room)
	x.Pending, x.pending, x.Request, x.Early, x.Room = nil, upstream.Pending{}, nil, nil, nil
	data, over, end := l.begin(s, head, l.spans)
	if len(data) > 0 {
		l.hold(s, data, at, src)
	}
	l.went(s, over, end)
}

// back gives an exchange and its client to the front: for what has come up, the loop
// is not made. err says why there will be no response.
func (l *Loop) back(s *Stream, err error) {
	x := s.x
	if err != nil {
		x.Err = err
		l.unsent(s)
	}
	s.over = true
	l.mu.Lock()
	if s.up != nil {
		l.remove(s.up)
	}
	l.remove(s.down)
	l.left(s)
	l.mu.Unlock()
	x.pending.Room = nil // it is the loop's
	early := x.Early
	x.Request, x.Early, x.Room, s.up, s.down = nil, nil, nil, nil, nil
	l.front.Serve(s.Down, early, x)
}
