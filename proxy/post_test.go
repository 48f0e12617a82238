package proxy

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/rs/zerolog"
)

// posting returns a function that makes a short request, which is not streamed, on one
// connection through everything; the engine and the client allocate nothing.
func posting(tb testing.TB) (ask func()) {
	answer := []byte(`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"word "},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
	engine, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = engine.Close() })
	go func() {
		for {
			c, err := engine.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					if _, err := c.Write(response); err != nil {
						return
					}
				}
			}()
		}
	}()
	p, err := New(Config{Upstreams: []string{"http://" + engine.Addr().String()}, ModelsEvery: -1, Models: []string{"m"}}, zerolog.Nop())
	if err != nil {
		tb.Fatal(err)
	}
	data, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	go func() { _ = p.Serve(data) }()
	tb.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	if p.relay() == nil {
		tb.Skip("no event loop here")
	}
	c, err := net.Dial("tcp", data.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	request := []byte(post("/v1/chat/completions", `{"model":"m","stream":false,"max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`, "Content-Type: application/json"))
	buf := make([]byte, 4096)
	return func() {
		if _, err := c.Write(request); err != nil {
			tb.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(buf[:n], []byte("}}")); {
			m, err := c.Read(buf[n:])
			if err != nil {
				tb.Fatal(err)
			}
			n += m
		}
	}
}

// TestPostAllocations holds a short request to two allocations, its id and its record,
// and what the ring grows by.
func TestPostAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has its own allocations, and its pools forget")
	}
	if got := testing.AllocsPerRun(2000, posting(t)); got > 3 {
		t.Errorf("got %v allocations a request, want at most 3", got)
	}
}

// BenchmarkPost is a short request through everything.
func BenchmarkPost(b *testing.B) {
	ask := posting(b)
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
}
