package stream

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// replay gives a captured body to a meter in the reads it really came in.
func replay(t testing.TB, m *Meter, name string, status int) {
	t.Helper()
	base := filepath.Join("..", "wire", "testdata", name)
	body, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(strings.TrimSuffix(base, filepath.Ext(base)) + ".reads")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m.Sent(origin)
	m.Headers(status, origin+1)
	for s := bufio.NewScanner(f); s.Scan(); {
		var us, n int
		if _, err := fmt.Sscan(s.Text(), &us, &n); err != nil {
			t.Fatal(err)
		}
		m.Observe(body[:n], origin+stamp.Instant(us)*1000)
		body = body[n:]
	}
	if len(body) > 0 {
		t.Fatalf("%s: %d bytes in no read", name, len(body))
	}
}

// What real engines sent, as records. The figures do not come from this
// program: a script with a JSON parser counted events, reads and tokens in the
// captures.
func TestCaptures(t *testing.T) {
	chat, completions := wire.Chat, wire.Completions
	for _, v := range []struct {
		file    string
		dialect wire.Dialect
		cause   CauseKind
		want    figures
		finish  string
	}{
		{"vllm/01-chat-usage.sse", chat, EOF, figures{
			// " the" shares its read with the role chunk, " quick" with " brown".
			ttfe: 89.7, ttft: 89.7, ttfv: 89.7, last: 114.7, tbt: 5, n: 6, from: FromUsageFinal,
			generated: 6, coalesced: 1, gaps: 4, minGap: 2, maxGap: 10.6, end: Completed,
		}, "length"},
		{"vllm/06-completions-continuous-token-ids.sse", completions, EOF, figures{
			ttfe: 32.1, ttft: 32.1, ttfv: 32.1, last: 64.8,
			tbt: 32.7 / 2, n: 3, from: FromTokenIDs, generated: 3, gaps: 2, minGap: 14.2, maxGap: 18.5,
			end: Completed,
		}, "length"},
		{"llamacpp/02-chat-no-usage.sse", chat, EOF, figures{
			ttfe: 17.8, ttft: 17.8, ttfv: 17.8, last: 17.9,
			tbt: 0.1 / 3, n: 4, from: FromUsageFinal, generated: 4, coalesced: 2, gaps: 1, minGap: 0.1, maxGap: 0.1,
			end: Completed,
		}, "length"},
		{"llamacpp/11-chat-emoji-utf8-holdback.sse", chat, EOF, figures{
			ttfe: 10, ttft: 10, ttfv: 10, last: 21.2,
			tbt: 11.2 / 23, n: 25, from: FromNative, generated: 10, coalesced: 6, gaps: 3, minGap: 0.1, maxGap: 7.3,
			end: Completed,
		}, "length"},
		{"llamacpp/13-chat-n2.sse", chat, EOF, figures{
			ttfe: 13.5, ttft: 13.5, ttfv: 13.5, last: 13.9,
			tbt: 0.4 / 5, n: 6, from: FromUsageFinal, generated: 6, coalesced: 3, gaps: 2, minGap: 0.3, maxGap: 0.4,
			end: Completed,
		}, "length"},
		{"llamacpp/14-chat-nonstream.json", chat, EOF, figures{
			ttfe: 10.4, ttft: 10.4, ttfv: 10.4, last: 10.4,
			tbt: null, n: 4, from: FromUsageFinal, generated: 1, minGap: null, maxGap: null,
			end: Completed, flags: "no_marker",
		}, "length"},
		{"llamacpp/50-killed-SIGKILL.sse", chat, EOF, figures{
			ttfe: 12.2, ttft: 12.2, ttfv: 12.2, last: 152.9,
			tbt: 140.7 / 191, n: 192, from: FromEstimate, generated: 192, coalesced: 97, gaps: 94, minGap: 0.1, maxGap: 10.5,
			end: Truncated,
		}, ""},
		{"llamacpp/51-killed-SIGTERM-6.sse", chat, Stall, figures{
			ttfe: 86.1, ttft: 86.1, ttfv: 86.1, last: 269,
			tbt: 182.9 / 339, n: 340, from: FromEstimate, generated: 340, coalesced: 243, gaps: 96, minGap: 0.1, maxGap: 26.8,
			end: Failed, reason: "stall",
		}, ""},
		{"sglang/10-chat-story-stop.sse", chat, EOF, figures{
			ttfe: 52.6, ttft: 52.6, ttfv: 52.6, last: 1140.8,
			tbt: 1088.2 / 100, n: 101, from: FromUsageFinal, generated: 96, gaps: 95, minGap: 0.6, maxGap: 37.8,
			end: Completed,
		}, "stop"},
		{"sglang/13-chat-n2-continuous.sse", chat, EOF, figures{
			ttfe: 46.9, ttft: 46.9, ttfv: 46.9, last: 58.9,
			tbt: 12.0 / 5, n: 6, from: FromUsageContinuous, generated: 4, coalesced: 1, gaps: 2, minGap: 11.8, maxGap: 12,
			end: Completed,
		}, "length"},
		{"vllm/11-chat-emoji-utf8-holdback.sse", chat, EOF, figures{
			ttfe: 81.1, ttft: 81.1, ttfv: 88.4, last: 246.4,
			tbt: 165.3 / 11, n: 12, from: FromTokenIDs, generated: 12, gaps: 11, minGap: 7.3, maxGap: 30.6,
			end: Completed,
		}, "length"},
		{"vllm/11b-chat-emoji-no-ids.sse", chat, EOF, figures{
			ttfe: 54.8, ttft: 54.8, ttfv: 64.2, last: 269.2,
			tbt: 214.4 / 11, n: 12, from: FromUsageContinuous, generated: 12, gaps: 11, minGap: 9.4, maxGap: 49.9,
			end: Completed,
		}, "length"},
		{"vllm/13-chat-n2-continuous.sse", chat, EOF, figures{
			ttfe: 98.2, ttft: 98.2, ttfv: 98.2, last: 211.7,
			tbt: 113.5 / 5, n: 6, from: FromUsageContinuous, generated: 6, coalesced: 3, gaps: 4, minGap: 46.4, maxGap: 67.1,
			end: Completed,
		}, "length"},
		{"vllm/17-chat-stream-interval4.sse", chat, EOF, figures{
			ttfe: 39.2, ttft: 39.5, ttfv: 39.5, last: 218.5,
			tbt: 179.0 / 13, n: 14, from: FromTokenIDs, generated: 5, gaps: 4, minGap: 14.1, maxGap: 58,
			end: Completed,
		}, "length"},
		{"vllm/18-chat-repetition-detection.sse", chat, EOF, figures{
			ttfe: 151.5, ttft: 160.3, ttfv: 160.3, last: 824,
			tbt: 663.7 / 23, n: 24, from: FromUsageFinal, generated: 24, gaps: 23, minGap: 7.8, maxGap: 86.2,
			end: Looped, reason: "engine",
		}, "repetition"},
		{"vllm/50-enginecore-SIGKILL.sse", chat, EOF, figures{
			ttfe: 37.3, ttft: 37.5, ttfv: 37.5, last: 305.1,
			tbt: 267.6 / 45, n: 46, from: FromEstimate, generated: 46, gaps: 45, minGap: 1.2, maxGap: 26,
			end: Failed, reason: "in_band",
		}, ""},
		{"vllm/51-apiserver-SIGTERM.sse", chat, Stall, figures{
			ttfe: 13.1, ttft: 13.1, ttfv: 13.1, last: 182.6,
			tbt: 169.5 / 35, n: 36, from: FromEstimate, generated: 36, gaps: 35, minGap: 1.8, maxGap: 12,
			end: Failed, reason: "stall",
		}, ""},
	} {
		t.Run(v.file, func(t *testing.T) {
			m := NewMeter(Options{Dialect: v.dialect})
			replay(t, m, v.file, 200)
			r := m.Finish(Cause{Kind: v.cause}, m.lastRead)
			check(t, r, v.want)
			if string(r.Finish) != v.finish {
				t.Errorf("finish %q, want %q", r.Finish, v.finish)
			}
		})
	}
}
