package proxy

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
)

// listener gives the server connections that stamp their reads.
type listener struct {
	net.Listener
	user       bool
	writeLimit time.Duration
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	sc := stamp.Wrap(c, l.user)
	sc.SetWriteLimit(l.writeLimit)
	return &clientConn{Conn: sc}, nil
}

// clientConn is a client's connection.
type clientConn struct{ *stamp.Conn }

// pieces holds the buffers of ReadFrom. 16 KiB: a token is some 200 bytes, and a
// larger body goes out in larger pieces than a segment.
var pieces = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// ReadFrom writes each piece of r as it comes. The server uses it for bodies
// with a length: its own buffer would hold a trickling body back until 4 KiB
// have come or the body has ended.
func (c *clientConn) ReadFrom(r io.Reader) (n int64, err error) {
	buf := pieces.Get().(*[]byte)
	defer pieces.Put(buf)
	for {
		m, err := r.Read(*buf)
		if m > 0 {
			w, werr := c.Write((*buf)[:m])
			n += int64(w)
			if werr != nil {
				return n, werr
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
