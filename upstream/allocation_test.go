//go:build !race

package upstream

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
)

// payload is an event of a chat stream, and event the chunk with it.
const payload = `data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}` + "\n\n"

var event = fmt.Sprintf("%x\r\n%s\r\n", len(payload), payload)

func TestBodyReadAllocatesNothing(t *testing.T) {
	r, next := endless(t)
	defer r.Close()
	buf := make([]byte, 4096)
	allocs := testing.AllocsPerRun(1000, func() {
		next()
		if n, err := r.Read(buf); n != len(payload) || err != nil {
			t.Fatalf("got %d bytes, %v, want %d, nil", n, err, len(payload))
		}
	})
	if allocs != 0 {
		t.Errorf("got %v allocations a read, want 0", allocs)
	}
}

// endless returns a response whose body gets one event more at each next.
func endless(t testing.TB) (r *Response, next func()) {
	t.Helper()
	conns := make(chan net.Conn, 1)
	done := make(chan struct{})
	s := serveRaw(t, func(_ int, c *net.TCPConn) {
		io.WriteString(c, chunkedHead)
		conns <- c
		<-done
	})
	t.Cleanup(func() { close(done) })
	r, err := s.client(t).Do(context.Background(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	c, b := <-conns, []byte(event)
	return r, func() { c.Write(b) }
}

// BenchmarkBodyRead is a write of one event and its read; BenchmarkWriteRead of
// the package stamp is the same without HTTP.
func BenchmarkBodyRead(b *testing.B) {
	r, next := endless(b)
	defer r.Close()
	buf := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		next()
		if _, err := r.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDechunk(b *testing.B) {
	in, buf := []byte(event), make([]byte, len(event))
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	var d chunked
	for b.Loop() {
		copy(buf, in)
		if n, _, err := d.decode(buf); n != len(payload) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	c := serveRaw(b, reply(okay)).client(b)
	req, buf := post("{}"), make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		r, err := c.Do(context.Background(), req)
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = r.Read(buf)
		}
		r.Close()
	}
}
