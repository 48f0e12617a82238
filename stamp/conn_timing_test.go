package stamp

import (
	"net"
	"testing"
	"time"
)

// One write and one read on loopback; "plain" is net.Conn alone.
func BenchmarkWriteRead(b *testing.B) {
	for _, bb := range []struct {
		name string
		read func(c *Conn) net.Conn
		idle time.Duration
		user bool
	}{
		{"plain", func(c *Conn) net.Conn { return c.NetConn() }, 0, true},
		{"user", func(c *Conn) net.Conn { return c }, 0, true},
		{"kernel", func(c *Conn) net.Conn { return c }, 0, false},
		{"kernel+idle", func(c *Conn) net.Conn { return c }, time.Minute, false},
	} {
		b.Run(bb.name, func(b *testing.B) {
			peer, c := tcpPair(b, bb.user)
			c.SetReadIdle(bb.idle)
			r := bb.read(c)
			msg, buf := make([]byte, 200), make([]byte, 4096)
			b.ReportAllocs()
			for b.Loop() {
				peer.Write(msg)
				if _, err := r.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
