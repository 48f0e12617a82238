//go:build !race

package stream

import (
	"bytes"
	"hash/crc64"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// BenchmarkEvent is the token path: decoding, measuring and loop detection of
// one event a read. The crc64 of the same bytes stands beside it, so that
// machines compare.
func BenchmarkEvent(b *testing.B) {
	events := steady(4096)
	perEvent := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
	}
	for _, o := range []struct {
		name string
		o    Options
	}{
		{"observe", Options{Dialect: wire.Chat}},
		{"observe-nodetect", Options{Dialect: wire.Chat, NoDetect: true}},
	} {
		b.Run(o.name, func(b *testing.B) {
			b.ReportAllocs()
			m := NewMeter(o.o)
			for b.Loop() {
				m.Reset(o.o)
				m.Sent(origin)
				for i, e := range events {
					m.Observe(e, origin+stamp.Instant(i+1)*1e6)
				}
			}
			perEvent(b)
		})
	}
	b.Run("crc64", func(b *testing.B) {
		body := bytes.Join(events, nil)
		table := crc64.MakeTable(crc64.ECMA)
		var sum uint64
		for b.Loop() {
			sum ^= crc64.Checksum(body, table)
		}
		_ = sum
		perEvent(b)
	})
}

func BenchmarkAppend(b *testing.B) {
	r := measure(r1(role), Cause{Kind: EOF})
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = r.Append(buf[:0])
	}
}
