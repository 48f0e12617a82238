//go:build !race

package wire

import (
	"runtime"
	"strings"
	"testing"
)

// A stream that waits for its next token holds next to nothing, also when it
// waits inside an event and whatever came before.
func TestIdleDecoderMemory(t *testing.T) {
	const streams, ceiling = 500, 1024
	token := "data: " + `{"id":"chatcmpl-90bd57df5a1768d9","object":"chat.completion.chunk","created":1796026385,"model":"tiny","choices":[{"index":0,"delta":{"content":"a\n"},"logprobs":null,"finish_reason":null,"token_ids":[5]}]}` + "\n\n"
	large := "data: " + content(strings.Repeat("x", 200<<10)) + "\n\n"
	for _, v := range []struct {
		name    string
		reads   []string
		partial int
	}{
		{"between two events", []string{token, token}, 0},
		{"inside an event", []string{token, token + token[:100]}, 100},
		{"behind an event in pieces", []string{token[:100], token[100:]}, 0},
		{"behind a large event", []string{token, large, token}, 0},
		{"behind a large event in pieces", []string{token, large[:100<<10], large[100<<10:], token}, 0},
		{"inside a larger event", []string{token, large[:900]}, 900},
	} {
		t.Run(v.name, func(t *testing.T) {
			decoders := make([]*Decoder, streams)
			before := heap()
			for i := range decoders {
				d := NewDecoder(Chat, 0)
				decoders[i] = d
				for _, p := range v.reads {
					d.Push([]byte(p))
					for d.Next() != nil {
					}
				}
			}
			each := int(heap()-before) / streams
			t.Logf("%d bytes each", each)
			if each > v.partial+ceiling {
				t.Errorf("%d bytes a stream, want at most %d beside the %d of half an event", each, ceiling, v.partial)
			}
			runtime.KeepAlive(decoders)
		})
	}
}

// heap returns the bytes in use, with what pools held gone.
func heap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
