package stamp

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a net.Conn whose reads are stamped. As usual one goroutine may read
// while another writes and a third closes; Stamp, SetReadIdle and SetWriteLimit
// belong to the goroutine that reads or writes.
type Conn struct {
	net.Conn // the socket, or TLS over it
	sock     *socket
	reserved atomic.Pointer[Raw] // of Reserve
}

// Close is net.Conn's.
func (c *Conn) Close() error {
	c.Unreserve()
	return c.Conn.Close()
}

// Unreserve gives back what Reserve got. While there are two descriptors, closing
// one neither sends a FIN nor a reset.
func (c *Conn) Unreserve() {
	if r := c.reserved.Swap(nil); r != nil {
		_ = r.Close()
	}
}

// Wrap returns c with stamped reads. Kernel stamps need a *net.TCPConn on Linux
// and user == false; with anything else each read is stamped with the clock
// read after it. A c that is stamped already is returned as it is.
func Wrap(c net.Conn, user bool) *Conn {
	if s, ok := c.(*Conn); ok {
		return s
	}
	return wrap(c, user, &system)
}

func wrap(c net.Conn, user bool, clk *clock) *Conn {
	s := &socket{Conn: c, track: track{clk: clk}}
	if !user {
		s.recv = openReceiver(c)
		s.send = openSender(s.recv)
	}
	return &Conn{Conn: s, sock: s}
}

// Stamp returns the instant of the bytes that the last successful Read
// returned, and who took it. Over TLS it is the instant of the socket read that
// completed their record.
func (c *Conn) Stamp() (Instant, Source) { return c.sock.at, c.sock.src }

// SetReadIdle limits the silence of the peer: before each read of the socket
// the read deadline is set d from now. 0 sets no deadlines and takes away the
// one that is set. While it is on, SetReadDeadline has no lasting effect.
func (c *Conn) SetReadIdle(d time.Duration) {
	if d <= 0 && c.sock.idle > 0 {
		_ = c.sock.SetReadDeadline(time.Time{})
	}
	c.sock.idle = max(d, 0)
}

// SetWriteLimit limits how long one Write may block; 0 is no limit.
func (c *Conn) SetWriteLimit(d time.Duration) {
	if d <= 0 && c.sock.limit > 0 {
		_ = c.sock.SetWriteDeadline(time.Time{})
	}
	c.sock.limit = max(d, 0)
}

// Abort closes the connection so that the peer sees a reset (SO_LINGER 0), not
// the FIN that could pass for a clean end. Nothing is flushed and it never
// blocks; over TLS no alert is sent. A blocked Read or Write returns.
func (c *Conn) Abort() error {
	c.Unreserve()
	if l, ok := c.sock.Conn.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0) // fails on a closed socket only
	}
	return c.sock.Close()
}

// CloseWrite ends our direction: a FIN, over TLS after a close_notify.
func (c *Conn) CloseWrite() error {
	for _, conn := range []net.Conn{c.Conn, c.sock.Conn} {
		if w, ok := conn.(interface{ CloseWrite() error }); ok {
			return w.CloseWrite()
		}
	}
	return errors.ErrUnsupported
}

// ErrDirty is Quiet's answer for a connection with unread bytes.
var ErrDirty = errors.New("unread bytes on an idle connection")

// Quiet returns nil if the connection is open and has nothing to read, as an
// idle one should: io.EOF after the peer's FIN, ErrDirty, or the socket's error
// otherwise. It never blocks and consumes nothing. A connection without a
// socket is taken to be quiet.
func (c *Conn) Quiet() error {
	if c.sock.recv.left() {
		return ErrDirty
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return quiet(raw)
}

// Buffered returns how many bytes were taken from the socket and not yet returned
// by Read. Over TLS they are those below it.
func (c *Conn) Buffered() int {
	return c.sock.recv.buffered()
}

// NetConn returns the connection that was wrapped, below TLS. Reading from it
// misses what a Read of c has taken from the socket beyond its buffer.
func (c *Conn) NetConn() net.Conn { return c.sock.Conn }

// SyscallConn gives access to the socket; errors.ErrUnsupported without one.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return rawConn(c.sock.Conn) }

func rawConn(c net.Conn) (syscall.RawConn, error) {
	if s, ok := c.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// socket is the stamped end below TLS.
type socket struct {
	net.Conn
	recv  *receiver // nil: user stamps
	send  *sender   // nil: the way of net.Conn
	track track
	at    Instant
	src   Source
	idle  time.Duration
	limit time.Duration
}

// Read is net.Conn's, and keeps the stamp.
func (s *socket) Read(p []byte) (int, error) {
	if s.idle > 0 {
		// It fails on a closed connection only, and the read tells more: of a
		// pipe whose other end is closed it is io.EOF.
		_ = s.SetReadDeadline(time.Now().Add(s.idle))
	}
	if s.recv == nil {
		n, err := s.Conn.Read(p)
		if n > 0 {
			s.at, s.src = Now(), User
		}
		return n, err
	}
	n, real, again, err := s.recv.read(p)
	if n > 0 && !again {
		s.at, s.src = s.track.place(real)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = s.opError("read", err)
	}
	return n, err
}

// Write is net.Conn's, under the write limit.
func (s *socket) Write(p []byte) (int, error) {
	if s.limit > 0 {
		_ = s.SetWriteDeadline(time.Now().Add(s.limit))
	}
	if s.send == nil {
		return s.Conn.Write(p)
	}
	n, err := s.send.write(p)
	if err != nil {
		err = s.opError("write", err)
	}
	return n, err
}
