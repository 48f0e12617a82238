package wire

import (
	"hash/crc64"
	"os"
	"testing"
)

// BenchmarkEvent reads a vLLM stream with token ids and continuous usage event
// by event; the crc64 of the same bytes stands beside it, so that machines
// compare.
func BenchmarkEvent(b *testing.B) {
	body, err := os.ReadFile("testdata/vllm/03-chat-continuous-usage-token-ids.sse")
	if err != nil {
		b.Fatal(err)
	}
	d := NewDecoder(Chat, 0)
	events := 0
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			d.Reset(Chat)
			d.Push(body)
			events = 0
			for d.Next() != nil {
				events++
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
	})
	b.Run("crc64", func(b *testing.B) {
		table := crc64.MakeTable(crc64.ECMA)
		var sum uint64
		for b.Loop() {
			sum ^= crc64.Checksum(body, table)
		}
		_ = sum
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
	})
}
