package main

import (
	"os"
	"strings"
	"testing"
)

// The rows of testdata/behave.tsv are behave.py's of a proxy that does everything
// right. Each is judged wrong when it says something else, or is missing.
func TestJudgeRows(t *testing.T) {
	text, err := os.ReadFile("testdata/behave.tsv")
	if err != nil {
		t.Fatal(err)
	}
	good := string(text)
	var b strings.Builder
	if wrong := judgeRows(&b, good); wrong != 0 {
		t.Fatalf("%d rows wrong of good ones:\n%s", wrong, b.String())
	}
	for _, e := range expected {
		var without []string
		for line := range strings.Lines(good) {
			if !strings.HasPrefix(line, ours+"\t"+e.row+" ") {
				without = append(without, line)
			}
		}
		if wrong := judgeRows(&b, strings.Join(without, "")); wrong != 1 {
			t.Errorf("without row %s: %d wrong, want 1", e.row, wrong)
		}
	}
	for _, tc := range []struct{ name, row, got string }{
		{"52 ms are over the bar", "a1", "aborted after 52.0 ms"},
		{"never", "a3", "NOT aborted within 6 s"},
		{"a cut body ended cleanly", "b1", "CLEAN END (bad); tokens seen 5/5; "},
		{"tokens lost before a FIN", "b1", "truncated (eof); tokens seen 4/5; "},
		{"half an event held until it was whole", "c", "arrivals ms partial=0 rest=1 ping=300 done=600 tail=900 (sent 0/300/600/900/1200)"},
		{"an event that never came", "c", "arrivals ms partial=0 rest=300 ping=600 done=900 tail=MISSING (sent 0/300/600/900/1200)"},
		{"bytes changed", "d1", "DIFFERENT (100 vs 101 bytes, HTTP/1.1 200 OK)"},
		{"no Retry-After", "e1", `429 Too Many Requests; retry-after=None; body '{"error":{"message":"slow down","type":"rate_limit","code":429}}'`},
		{"asked again", "e3", "4 upstream request(s)"},
		{"a short body", "f1", "200 OK; upstream got 20971000 of 20971638; hash same"},
		{"refused", "f1", "413 Request Entity Too Large; b''"},
		{"chunks", "h1", "HTTP/1.1 200 OK te=chunked cl=None ended=eof bytes=18 CHUNKED TO 1.0 CLIENT (bad)"},
		{"no Continue", "h2", "interim: nothing in 2 s after 2000.0 ms; final: HTTP/1.1 200 OK; upstream saw Expect: no"},
		{"a HEAD without length", "h3", "200 OK cl=None body=0 ended=eof"},
		{"an added header", "i", "upstream saw x-request-id=['my-id-9'] traceparent=yes x-custom=['c1'] xff=['127.0.0.1'] auth=no; client saw x-request-id=up-id-1 x-up=1"},
	} {
		changed := good + ours + "\t" + tc.row + " again\t" + tc.got + "\n"
		if wrong := judgeRows(&b, changed); wrong != 1 {
			t.Errorf("%s: %d rows wrong, want 1", tc.name, wrong)
		}
	}
}
