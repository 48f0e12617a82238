package proxy

import (
	"errors"
	"io"
	"strconv"
	"sync"
)

// chunks is a tap whose bytes go out in chunks of its own making: framed where
// they were read to, and written at once. Through the server's loop each stream
// would hold two more buffers, and each token be copied twice more.
type chunks struct {
	*tap
	client *clientConn
}

// SupportsBodyWriteTo lets the server use WriteTo.
func (chunks) SupportsBodyWriteTo() bool { return true }

// WriteTo writes to the connection, past the server's writer: that is empty, since
// the head was flushed. The server writes the last chunk and the trailers when it
// returns nil.
func (c chunks) WriteTo(io.Writer) (n int64, err error) {
	in := &rooms[0]
	b := in.pool.Get().(*[]byte)
	defer func() { in.pool.Put(b) }()
	last := 0
	for {
		// A stream that waits holds a buffer of the size that its reads have.
		want := roomFor(2 * last)
		if c.x.resp.Buffered() > 0 {
			want = &rooms[len(rooms)-1]
		}
		if want != in {
			in.pool.Put(b)
			in = want
			b = in.pool.Get().(*[]byte)
		}
		data := (*b)[before : len(*b)-after]
		last, err = c.fetch(data)
		if last > 0 {
			c.held = data[:last]
			if _, werr := c.client.Write(enclose(*b, last)); werr != nil {
				c.unwritten()
				return n, werr
			}
			n += int64(last)
			c.settle()
			c.held = nil
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Room for a chunk's size before its data, and the CRLF behind it.
const (
	before = len("ffff\r\n")
	after  = len("\r\n")
)

// enclose makes the n bytes at before a chunk.
func enclose(b []byte, n int) []byte {
	var digits [before]byte
	size := append(strconv.AppendInt(digits[:0], int64(n), 16), "\r\n"...)
	begin := before - len(size)
	copy(b[begin:], size)
	return append(b[begin:before+n], "\r\n"...)
}

// rooms are the buffers of WriteTo by size: most tokens come in 200 to 400 bytes
// of framing and JSON, those with log probabilities in some thousands.
var rooms = [...]room{newRoom(1 << 10), newRoom(4 << 10), newRoom(16 << 10)}

type room struct {
	size int
	pool *sync.Pool
}

func newRoom(size int) room {
	return room{size, &sync.Pool{New: func() any { b := make([]byte, size); return &b }}}
}

// roomFor returns the smallest that takes n bytes, or the largest.
func roomFor(n int) *room {
	for i := range rooms {
		if n <= rooms[i].size {
			return &rooms[i]
		}
	}
	return &rooms[len(rooms)-1]
}
