package sim

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/valyala/fastjson"
)

// BenchmarkToken is the simulator's own cost of one token event, from the step
// to the bytes handed over, without HTTP and without waiting.
func BenchmarkToken(b *testing.B) {
	for _, d := range []Dialect{VLLM, SGLang, LlamaCPP} {
		b.Run(string(d), func(b *testing.B) {
			p := plain()
			p.Dialect = d
			p.Speed.TTFT = NewSurface([]Sample{{Time: time.Nanosecond}})
			p.Speed.TBT = p.Speed.TTFT
			p.MaxModelLen, p.KVTokens = 1<<30, 1<<30
			srv := New(p, Options{})
			var parser fastjson.Parser
			req, _ := parse(&parser, []byte(chatBody(p, 100, 0, "a", `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`)), true)
			tokens, prefixes := srv.tokenize(req)
			st := &stream{
				srv: srv, shape: srv.shape, written: -1,
				job:   &job{log: srv.sched.log.open(Request{}), n: 1, prompt: tokens, prefixes: prefixes, wake: make(chan struct{}, 1)},
				reply: &reply{req: req, id: "r1", model: "m", choices: newChoices(srv.profile, req, 1, b.N)},
			}
			srv.sched.enter(st.job, srv.sched.now())
			buf := make([]byte, 4096)
			b.ReportAllocs()
			b.ResetTimer()
			var err error
			for err == nil {
				_, err = st.Read(buf)
			}
			if !errors.Is(err, io.EOF) {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkPrompt is the cost of reading a prompt: parsing, counting, hashing.
func BenchmarkPrompt(b *testing.B) {
	for _, tokens := range []int{8192, 131072} {
		b.Run(fmt.Sprint(tokens), func(b *testing.B) {
			p := plain()
			srv := New(p, Options{})
			body := []byte(chatBody(p, tokens, 1, "a", ""))
			var parser fastjson.Parser
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				req, f := parse(&parser, body, true)
				if f != nil {
					b.Fatal(f)
				}
				if n, _ := srv.tokenize(req); n != tokens {
					b.Fatalf("%d tokens, want %d", n, tokens)
				}
			}
		})
	}
}
