package proxy

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"github.com/rs/zerolog"
)

// BenchmarkPost is a short request that is not streamed, on one connection, through
// everything; the engine and the client allocate nothing.
func BenchmarkPost(b *testing.B) {
	answer := []byte(`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"word "},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
	engine, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer engine.Close()
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
		b.Fatal(err)
	}
	data, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = p.Serve(data) }()
	defer func() { _ = p.Shutdown(b.Context()) }()
	c, err := net.Dial("tcp", data.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	request := []byte(post("/v1/chat/completions", `{"model":"m","stream":false,"max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`, "Content-Type: application/json"))
	buf := make([]byte, 4096)
	for n := 0; b.Loop(); {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		for n = 0; !bytes.HasSuffix(buf[:n], []byte("}}")); {
			m, err := c.Read(buf[n:])
			if err != nil {
				b.Fatal(err)
			}
			n += m
		}
	}
}
