package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The delays of a round are those over direct in that round, and ratios are of
// medians.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	streams, short := filepath.Join(dir, "s"), filepath.Join(dir, "p")
	for path, text := range map[string]string{
		streams: `{"name":"direct","conf":"128","round":1,"p50":100,"p99":1000,"ttft50":50}
{"name":"ours","conf":"128","round":1,"p50":300,"p99":1900,"ttft50":150,"cpu_tok":22,"rss_stream_kb":20}
{"name":"nginx","conf":"128","round":1,"p50":200,"p99":1600,"ttft50":100,"cpu_tok":20,"rss_stream_kb":10}
{"name":"direct","conf":"128","round":2,"p50":200,"p99":1100,"ttft50":50}
{"name":"ours","conf":"128","round":2,"p50":500,"p99":2000,"ttft50":150,"cpu_tok":26,"rss_stream_kb":20,"errs":1}
{"name":"nginx","conf":"128","round":2,"p50":300,"p99":1700,"ttft50":100,"cpu_tok":20,"rss_stream_kb":10}
`,
		short: `{"name":"ours","conns":32,"round":1,"rps":15000,"cpu_req":30}
{"name":"nginx","conns":32,"round":1,"rps":10000,"cpu_req":20}
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if err := report(&b, streams, short); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"128 streams, 2 rounds; direct p99 1050 µs",
		"| ours | 250.0 (×2.50) | 900.0 (×1.50) | 100.0 (×2.00) | 24.0 (×1.20) | 20.0 (×2.00) | 1 |",
		"| nginx | 100.0 | 600.0 | 50.0 | 20.0 | 10.0 | 0 |",
		"| haproxy | – | – | – | – | – | 0 |",
		"short POSTs on 32 connections, 1 rounds",
		"| ours | 15000.0 (×1.50) |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}
