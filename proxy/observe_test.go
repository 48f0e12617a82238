package proxy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

// talk is a stream of single tokens in the chunks of vLLM, each of an id of its
// own and of words that do not repeat.
type talk struct {
	obs  *observer
	head string
	rng  *rand.Rand
}

func (t *talk) chunk(buf []byte) []byte {
	buf = append(append(buf, t.head...), ' ')
	for range 1 + t.rng.IntN(4) {
		buf = append(buf, "bdfgklmnprstvz"[t.rng.IntN(14)], "aeiou"[t.rng.IntN(5)])
	}
	return append(buf, `"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`+"\n\n"...)
}

// talks opens n streams that had so many events before.
func talks(b *testing.B, n, events int) ([]talk, stamp.Instant) {
	p, err := New(Config{Upstreams: []string{"http://engine:80"}, ModelsEvery: -1, Models: []string{"m"}}, zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	at := stamp.Now()
	all := make([]talk, n)
	for i := range all {
		o := p.newObserver(fmt.Sprintf("id-%d", i), "chat", &engineName, wire.Chat)
		o.learn([]byte(chatBody))
		o.sentAt(at)
		o.meter.Headers(200, at)
		all[i] = talk{o, fmt.Sprintf(`data: {"id":"chatcmpl-%016x","object":"chat.completion.chunk","created":1796034278,"model":"m","choices":[{"index":0,"delta":{"content":"`, i), rand.New(rand.NewPCG(1, uint64(i)))}
	}
	b.Cleanup(func() {
		for i := range all {
			all[i].obs.finish(stream.Cause{Kind: stream.Gone}, at, 0)
		}
		if err := p.Shutdown(b.Context()); err != nil {
			b.Error(err)
		}
	})
	var buf []byte
	for range events {
		for i := range all {
			at += stamp.Instant(int(100*time.Millisecond) / n)
			buf = all[i].chunk(buf[:0])
			all[i].obs.observe(buf, at, stamp.Kernel)
		}
	}
	return all, at
}

// BenchmarkObserveCold is what an event costs where the caches do not hold its
// stream: many streams have their turn in between, and half a megabyte of other
// work, as the system calls of the forwarding are. Its ns/event are of observing
// alone, with some 40 ns for the two readings of the clock.
func BenchmarkObserveCold(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			all, at := talks(b, n, 450)
			other := make([]byte, 512<<10)
			var buf []byte
			var spent time.Duration
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				t := &all[i%n]
				at += stamp.Instant(int(100*time.Millisecond) / n)
				buf = t.chunk(buf[:0])
				for k := 0; k < len(other); k += 64 {
					other[k]++
				}
				begun := stamp.Now()
				t.obs.observe(buf, at, stamp.Kernel)
				spent += stamp.Now().Sub(begun)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(spent)/float64(b.N), "ns/event")
		})
	}
}
