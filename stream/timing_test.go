//go:build !race

package stream

import (
	"bytes"
	"fmt"
	"hash/crc64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// shape is a stream to time: the body's reads, one event each.
type shape struct {
	name   string
	events [][]byte
}

// shapes are made words, one token an event; instants in nanoseconds as a
// ground-truth emitter sends them, one and four tokens an event: text that is
// nearly periodic and nothing but numbers; and what real engines sent.
func shapes(t testing.TB) []shape {
	all := []shape{{"words", steady(4096)}, {"instants-k1", instants(4096, 1)}, {"instants-k4", instants(4096, 4)}}
	for _, engine := range []string{"vllm", "sglang", "llamacpp"} {
		body, err := os.ReadFile(filepath.Join("..", "wire", "testdata", engine, "10-chat-story-stop.sse"))
		if err != nil {
			t.Fatal(err)
		}
		events := bytes.SplitAfter(body, []byte("\n\n"))
		all = append(all, shape{engine, events[:len(events)-1]})
	}
	return all
}

// instants is a stream whose tokens are the nanoseconds at which they were
// sent, k tokens an event and 10 ms a token.
func instants(n, k int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		text := strings.Repeat(fmt.Sprintf("@%d ", 1796026385123456789+int64(i)*int64(k)*10_000_000+int64(i*7919%90_001)), k)
		out[i] = fmt.Appendf(nil, `data: {"id":"sg-1-0007-3f2a","object":"chat.completion.chunk","created":1796026385,"model":"steady","choices":[{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":2048,"total_tokens":%d,"completion_tokens":%d}}`+"\n\n",
			text, 2048+(i+1)*k, (i+1)*k)
	}
	return out
}

// BenchmarkObserve is the token path: decoding, measuring and loop detection of
// one event a read, and what each leaves out. The crc64 of the same bytes stands
// beside it, so that machines compare.
func BenchmarkObserve(b *testing.B) {
	table := crc64.MakeTable(crc64.ECMA)
	for _, s := range shapes(b) {
		size := 0
		for _, e := range s.events {
			size += len(e)
		}
		perEvent := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(s.events)), "ns/event")
			b.ReportMetric(float64(size)/float64(len(s.events)), "B/event")
		}
		for _, o := range []struct {
			name string
			o    Options
		}{
			{"full", Options{Dialect: wire.Chat}},
			{"nodetect", Options{Dialect: wire.Chat, NoDetect: true}},
		} {
			b.Run(s.name+"/"+o.name, func(b *testing.B) {
				b.ReportAllocs()
				m := NewMeter(o.o)
				for b.Loop() {
					m.Reset(o.o)
					m.Sent(origin)
					for i, e := range s.events {
						m.Observe(e, origin+stamp.Instant(i+1)*1e6)
					}
				}
				perEvent(b)
			})
		}
		b.Run(s.name+"/decode", func(b *testing.B) {
			dec := wire.NewDecoder(wire.Chat, 0)
			for b.Loop() {
				dec.Reset(wire.Chat)
				for _, e := range s.events {
					dec.Push(e)
					for dec.Next() != nil { //nolint:revive // that is all
					}
				}
			}
			perEvent(b)
		})
		b.Run(s.name+"/crc64", func(b *testing.B) {
			for b.Loop() {
				for _, e := range s.events {
					checksum = crc64.Checksum(e, table)
				}
			}
			perEvent(b)
		})
	}
}

// BenchmarkStreams is what a load generator does: the events of many streams in
// turn, whose states together are larger than the nearer caches.
func BenchmarkStreams(b *testing.B) {
	const streams = 128
	for _, s := range []shape{{"instants-k1", instants(1000, 1)}, {"instants-k4", instants(600, 4)}, {"words", steady(1000)}} {
		b.Run(s.name, func(b *testing.B) {
			o := Options{Dialect: wire.Chat}
			meters := make([]*Meter, streams)
			for k := range meters {
				meters[k] = NewMeter(o)
			}
			for b.Loop() {
				for _, m := range meters {
					m.Reset(o)
					m.Sent(origin)
				}
				for i, e := range s.events {
					for _, m := range meters {
						m.Observe(e, origin+stamp.Instant(i+1)*1e6)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*streams*len(s.events)), "ns/event")
		})
	}
}

var checksum uint64 // keeps the sums from being optimised away

func BenchmarkAppend(b *testing.B) {
	r := measure(r1(role), Cause{Kind: EOF})
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = r.Append(buf[:0])
	}
}
