package proxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

// outcome is what a case says of a record, in milliseconds; -1 is null.
type outcome struct {
	ttfe, ttft, ttfv float64
	tbt              float64
	gaps             string // as "20 20"
	n                int
	from             stream.TokensFrom
	end              stream.End
	reason           string
	coalesced        int
	malformed        int
	flags            string
}

func msOf(v stream.Null[int64]) float64 {
	if !v.OK {
		return -1
	}
	return float64(v.V) / 1e6
}

func outcomeOf(r stream.Record) outcome {
	o := outcome{ttfe: msOf(r.TTFENS), ttft: msOf(r.TTFTNS), ttfv: msOf(r.TTFVNS), tbt: -1,
		n: r.Tokens, from: r.TokensFrom, end: r.End, reason: string(r.Reason), coalesced: r.CoalescedEvents,
		malformed: r.Malformed, flags: strings.Join(r.Flags, " ")}
	if r.TBTNS.OK {
		// Two digits, as the cases are written.
		o.tbt = float64(int64(r.TBTNS.V/1e4+0.5)) / 100
	}
	var gaps []string
	for i := 1; i < len(r.EventLog); i++ {
		if gap := r.EventLog[i][0] - r.EventLog[i-1][0]; gap != 0 {
			gaps = append(gaps, fmt.Sprint(float64(gap)/1e6))
		}
	}
	o.gaps = strings.Join(gaps, " ")
	return o
}

// runCase plays a script through the whole proxy in virtual time. The client
// must get the script's bytes, broken off where the script broke off.
func runCase(t *testing.T, name string, sc sim.Script, want outcome) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		bubble(t, Config{BodyIdle: time.Minute}, sim.Always(sc), func(t *testing.T, w *world) {
			a := w.say(chat())
			if !bytes.Equal(a.body, bytesOf(sc)) {
				t.Errorf("body: got %q, want %q", a.body, bytesOf(sc))
			}
			broken := sc.End == sim.Drop || sc.End == sim.Reset || sc.End == sim.Hang
			if (a.err != nil) != broken {
				t.Errorf("the client saw %v, want a broken body: %v", a.err, broken)
			}
			if d := cmp.Diff(outcomeOf(w.record()), want, cmp.AllowUnexported(outcome{})); d != "" {
				t.Errorf("record (-got +want):\n%s", d)
			}
		})
	})
}

const r1 = `ROLE@50 | C("a")@500 | C("b")@520 | C("c")@540 | FIN("length") U(10,3) D @541`

var r1Outcome = outcome{ttfe: 50, ttft: 500, ttfv: 500, tbt: 20, gaps: "20 20", n: 3,
	from: stream.FromUsageFinal, end: stream.Completed}

func TestR1(t *testing.T) {
	rest := strings.TrimPrefix(r1, `ROLE@50`)
	for _, c := range []struct{ name, in string }{
		{"role with empty content", r1},
		{"role with null content", `K({"role":"assistant","content":null})@50` + rest},
		{"role alone", `K({"role":"assistant"})@50` + rest},
		{"role twice", `ROLE@50 | ROLE@51` + rest},
		{"empty content later is no token", `ROLE@50 | C("")@300` + rest},
	} {
		runCase(t, c.name, script(c.in), r1Outcome)
	}
}

func TestR2(t *testing.T) {
	want := outcome{ttfe: 50, ttft: 300, ttfv: 1300, tbt: 500, gaps: "20 980", n: 3,
		from: stream.FromUsageFinal, end: stream.Completed}
	runCase(t, "reasoning_content", script(`ROLE@50 | G("x")@300 | G("y")@320 | C("z")@1300 | FIN("stop") U(10,3) D@1301`), want)
	runCase(t, "reasoning", script(`ROLE@50 | G2("x")@300 | G2("y")@320 | C("z")@1300 | FIN("stop") U(10,3) D@1301`), want)
	runCase(t, "one delta with both is one event",
		script(`ROLE@50 | K({"reasoning_content":"x","content":"y"})@300 | C("z")@320 | FIN("stop") U(10,2) D@321`),
		outcome{ttfe: 50, ttft: 300, ttfv: 300, tbt: 20, gaps: "20", n: 2, from: stream.FromUsageFinal, end: stream.Completed})
	runCase(t, "R2c: reasoning only", script(`ROLE@50 | G("t")x64 every 10 from 300 | FIN("length") U(10,64) D`),
		outcome{ttfe: 50, ttft: 300, ttfv: -1, tbt: 10, gaps: strings.TrimSpace(strings.Repeat("10 ", 63)), n: 64,
			from: stream.FromUsageFinal, end: stream.Completed})
}

func TestR3(t *testing.T) {
	runCase(t, "four tokens a chunk, usage in each",
		script(`ROLE+u(0)@50 | C("a b c d")+u(4)@100 | C("e f g h")+u(8)@140 | C("i j k l")+u(12)@180 | U(10,12) FIN("stop") D@181`),
		outcome{ttfe: 50, ttft: 100, ttfv: 100, tbt: 10, gaps: "40 40", n: 12, from: stream.FromUsageContinuous, end: stream.Completed})
	runCase(t, "irregular: 1, 5, 2, 4",
		script(`ROLE+u(0)@50 | C("a")+u(1)@100 | C("b c d e f")+u(6)@140 | C("g h")+u(8)@180 | C("i j k l")+u(12)@220 | FIN("stop") U(10,12) D@221`),
		outcome{ttfe: 50, ttft: 100, ttfv: 100, tbt: 10.91, gaps: "40 40 40", n: 12, from: stream.FromUsageContinuous, end: stream.Completed})
	runCase(t, "R3b: only the total is told",
		script(`ROLE@50 | C("a b c d")@100 | C("e f g h")@140 | C("i j k l")@180 | FIN("stop") U(10,12) D@181`),
		outcome{ttfe: 50, ttft: 100, ttfv: 100, tbt: 7.27, gaps: "40 40", n: 12, from: stream.FromUsageFinal, end: stream.Completed})
	runCase(t, "R3c: nothing is told",
		script(`ROLE@50 | C("a b c d")@100 | C("e f g h")@140 | C("i j k l")@180 | FIN("stop") D@181`),
		outcome{ttfe: 50, ttft: 100, ttfv: 100, tbt: 40, gaps: "40 40", n: 3, from: stream.FromEstimate, end: stream.Completed})
}

func TestR4(t *testing.T) {
	const chunk = `{"id":"r1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":null}`
	want := outcome{ttfe: 100, ttft: 100, ttfv: 100, tbt: 20, gaps: "20", n: 2, from: stream.FromUsageFinal, end: stream.Completed}
	runCase(t, "usage null on each chunk", script(`ev(`+chunk+`)@100 | ev(`+chunk+`)@120 | FIN("stop") U(10,2) D@121`), want)
	runCase(t, "usage in the finish chunk", script(`C("a")@100 | C("b")@120 | FIN("stop")+u(2) D@121`), want)
	runCase(t, "usage twice", script(`C("a")@100 | C("b")@120 | FIN("stop") U(10,2) U(10,2) D@121`), want)
}

func TestR5(t *testing.T) {
	failed := outcome{ttfe: 100, ttft: 100, ttfv: 100, tbt: 20, gaps: "20", n: 2, from: stream.FromEstimate,
		end: stream.Failed, reason: "in_band"}
	runCase(t, "error object", script(`C("a")@100 | C("b")@120 | ev({"error":{"message":"boom","type":"InternalServerError","code":500}}) D@130`), failed)
	runCase(t, "error as a string", script(`C("a")@100 | C("b")@120 | ev({"error":"boom","error_type":"generation"})@130`), failed)
	runCase(t, "event: error", script(`C("a")@100 | C("b")@120 | raw("event: error\ndata: {\"message\":\"boom\"}\n\n")@130`), failed)
	runCase(t, "finish_reason error", script(`C("a")@100 | C("b")@120 | FIN("error") D@130`), failed)
	runCase(t, "error first", script(`ev({"error":{"message":"boom"}})@100`),
		outcome{ttfe: 100, ttft: -1, ttfv: -1, tbt: -1, from: stream.FromEstimate, end: stream.Failed, reason: "in_band"})
	ok := outcome{ttfe: 100, ttft: 100, ttfv: 100, tbt: 20, gaps: "20", n: 2, from: stream.FromUsageFinal, end: stream.Completed}
	runCase(t, "error null is none", script(`ev({"id":"r1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"error":null})@100 | C("b")@120 | FIN("stop") U(10,2) D@121`), ok)
	runCase(t, "the word error in the text", script(`C("error")@100 | C("{\"error\":1}")@120 | FIN("stop") U(10,2) D@121`), ok)
}

func TestR6(t *testing.T) {
	empty := outcome{ttfe: -1, ttft: -1, ttfv: -1, tbt: -1, from: stream.FromEstimate, end: stream.Failed, reason: "empty"}
	runCase(t, "200 and nothing", sim.Script{}, empty)
	marker := empty
	marker.ttfe = 10
	runCase(t, "only the marker", script(`D@10`), marker)
	usage := marker
	usage.from = stream.FromUsageFinal
	runCase(t, "role, finish and usage, no token", script(`ROLE FIN("stop") U(10,0) D@10`), usage)
	one := outcome{ttfe: 10, ttft: 10, ttfv: 10, tbt: -1, n: 1, from: stream.FromEstimate, end: stream.Truncated}
	runCase(t, "a token and the end", script(`C("a")@10`), one)
	completed := one
	completed.end, completed.flags = stream.Completed, "no_marker"
	runCase(t, "finish without a marker", script(`C("a")@10 | FIN("stop")@11`), completed)

	cut := script(`C("a")@10`)
	cut.End = sim.Drop
	runCase(t, "chunked without its last chunk", cut, one)
	short := cut
	short.Framing, short.Length = sim.ByLength, 1000
	runCase(t, "Content-Length over the body's", short, one)
}

// TestR7 tortures the framing of R1's bytes; the numbers stay R1's.
func TestR7(t *testing.T) {
	remake := func(f func([]byte) []byte) sim.Script {
		sc := script(r1)
		for i := range sc.Writes {
			sc.Writes[i].Bytes = f(sc.Writes[i].Bytes)
		}
		return sc
	}
	replace := func(old, new string) sim.Script {
		return remake(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(new)) })
	}
	// cut makes one write of each piece that f cuts off, all at their event's time.
	cut := func(sc sim.Script, f func([]byte) int) sim.Script {
		var out []sim.Write
		for _, w := range sc.Writes {
			for b := w.Bytes; len(b) > 0; {
				n := min(max(f(b), 1), len(b))
				out = append(out, sim.Write{At: w.At, Bytes: b[:n]})
				b = b[n:]
			}
		}
		sc.Writes = out
		return sc
	}
	first := func(s string) func([]byte) []byte {
		done := false
		return func(b []byte) []byte {
			if done {
				return b
			}
			done = true
			return append([]byte(s), b...)
		}
	}
	wide := script(strings.NewReplacer(`"a"`, `"漢字"`, `"b"`, `"🙂"`).Replace(r1))

	runCase(t, "one byte a write", cut(script(r1), func([]byte) int { return 1 }), r1Outcome)
	runCase(t, "characters cut at every byte", cut(wide, func(b []byte) int { return 1 + bytes.IndexFunc(b, func(r rune) bool { return r > 127 }) }), r1Outcome)
	runCase(t, "between the two line feeds", cut(script(r1), func(b []byte) int { return bytes.Index(b, []byte("\n\n")) + 1 }), r1Outcome)
	runCase(t, "CRLF", replace("\n", "\r\n"), r1Outcome)
	runCase(t, "no space after the colon", replace("data: ", "data:"), r1Outcome)
	runCase(t, "event, id and retry lines", replace("data: ", "event: message\nid: 7\nretry: 10\ndata: "), r1Outcome)
	runCase(t, "byte order mark", remake(first("\ufeff")), r1Outcome)
	runCase(t, "U+2028 and U+0085 in a string", replace(`"a"`, "\"a\u2028\u0085\""), r1Outcome)
	runCase(t, "escaped line feeds in a string", replace(`"a"`, `"a\n\n"`), r1Outcome)
	runCase(t, "an event of 1 MiB", replace(`"b"`, `"`+strings.Repeat("b", 1<<20)+`"`), r1Outcome)
	runCase(t, "two data lines in one event", replace(`,"choices"`, ",\ndata: \"choices\""), r1Outcome)

	pings := script(r1)
	var with []sim.Write
	next := 0
	for at := time.Duration(0); at < 541*time.Millisecond; at += 15 * time.Millisecond {
		for next < len(pings.Writes) && pings.Writes[next].At <= at {
			with = append(with, pings.Writes[next])
			next++
		}
		with = append(with, sim.Write{At: at, Bytes: []byte(": ping\n\n")})
	}
	pings.Writes = append(with, pings.Writes[next:]...)
	runCase(t, "comments between events", pings, r1Outcome)

	single := script(r1)
	last := &single.Writes[len(single.Writes)-1]
	last.Bytes = bytes.TrimSuffix(last.Bytes, []byte("\n"))
	unterminated := r1Outcome
	unterminated.flags = "unterminated"
	runCase(t, "last event with one line feed", single, unterminated)

	glued := replace("\n\ndata: {\"id\":\"r1\",\"choices\":[]", "{\"id\":\"r1\",\"choices\":[]")
	bad := r1Outcome
	bad.malformed, bad.from = 1, stream.FromEstimate
	bad.flags = "no_finish"
	runCase(t, "two objects glued", glued, bad)
}

func TestR8(t *testing.T) {
	runCase(t, "200 tokens in one write", script(strings.Repeat(`C("a") `, 200)+`FIN("stop") U(10,200) D@500`),
		outcome{ttfe: 500, ttft: 500, ttfv: 500, tbt: -1, n: 200, from: stream.FromUsageFinal, end: stream.Completed, coalesced: 199})
	var in []string
	for i := range 40 {
		in = append(in, fmt.Sprintf(`C("a") C("b") C("c") C("d") C("e")@%d`, 50*(i+1)))
	}
	runCase(t, "five events a write", script(strings.Join(in, " | ")+` | FIN("stop") U(10,200) D@2001`),
		outcome{ttfe: 50, ttft: 50, ttfv: 50, tbt: 9.8, gaps: strings.TrimSpace(strings.Repeat("50 ", 39)), n: 200,
			from: stream.FromUsageFinal, end: stream.Completed, coalesced: 160})
}

func TestR10(t *testing.T) {
	silent := script(`C("a")@10 | C("b")@20 | C("c")@30`)
	silent.End = sim.Hang
	runCase(t, "three tokens, then silence", silent,
		outcome{ttfe: 10, ttft: 10, ttfv: 10, tbt: 10, gaps: "10 10", n: 3, from: stream.FromEstimate, end: stream.Failed, reason: "stall"})

	var in []string
	at := 0
	for i := range 100 {
		if at += 10; i == 50 {
			at += 390
		}
		in = append(in, fmt.Sprintf(`C("a")@%d`, at))
	}
	gaps := strings.Repeat("10 ", 49) + "400 " + strings.Repeat("10 ", 49)
	runCase(t, "R10b: one pause of 400 ms", script(strings.Join(in, " | ")+` | FIN("stop") U(10,100) D`),
		outcome{ttfe: 10, ttft: 10, ttfv: 10, tbt: 13.94, gaps: strings.TrimSpace(gaps), n: 100,
			from: stream.FromUsageFinal, end: stream.Completed})
}

// TestR22 holds the proxy to holding nothing: events come one by one, at their
// instants, byte by byte the same. Compressed ones too, though nobody here can
// read them.
func TestR22(t *testing.T) {
	for _, c := range []struct {
		name string
		zip  bool
	}{{"plain", false}, {"gzip", true}} {
		t.Run(c.name, func(t *testing.T) {
			sc := sim.Script{Header: []string{"Content-Type: text/event-stream"}}
			var packed bytes.Buffer
			zip := gzip.NewWriter(&packed)
			for i := range 1000 {
				event := fmt.Appendf(nil, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d \"}}]}\n\n", i)
				if c.zip {
					packed.Reset()
					if _, err := zip.Write(event); err != nil {
						t.Fatal(err)
					}
					if err := zip.Flush(); err != nil {
						t.Fatal(err)
					}
					event = bytes.Clone(packed.Bytes())
				}
				sc.Writes = append(sc.Writes, sim.Write{At: time.Duration(i+1) * time.Millisecond, Bytes: event})
			}
			if c.zip {
				sc.Header = append(sc.Header, "Content-Encoding: gzip")
			}
			bubble(t, Config{}, sim.Always(sc), func(t *testing.T, w *world) {
				a := w.say(chat("Accept-Encoding: gzip"))
				if a.err != nil {
					t.Fatal(a.err)
				}
				played := w.up.Played()[0]
				if len(a.pieces) != len(sc.Writes) {
					t.Fatalf("got %d pieces, want %d", len(a.pieces), len(sc.Writes))
				}
				for i, p := range a.pieces {
					if !bytes.Equal(p.bytes, sc.Writes[i].Bytes) {
						t.Fatalf("event %d: got %q, want %q", i, p.bytes, sc.Writes[i].Bytes)
					}
					if !p.at.Equal(played.Wrote[i]) {
						t.Fatalf("event %d came %v after it was written, want at once", i, p.at.Sub(played.Wrote[i]))
					}
				}
				r := w.record()
				if c.zip {
					if got := w.metric(`streamgauge_blind_streams_total{reason="encoded"}`); got != "1" {
						t.Errorf("blind streams: got %q, want 1", got)
					}
					if enc := a.header.Get("Content-Encoding"); enc != "gzip" {
						t.Errorf("Content-Encoding: got %q, want gzip", enc)
					}
					return
				}
				if r.GeneratedEvents != 1000 || r.CoalescedEvents != 0 {
					t.Errorf("record: got %d events, %d coalesced, want 1000 and 0", r.GeneratedEvents, r.CoalescedEvents)
				}
			})
		})
	}
}

// TestR23 passes answers that are no streams through as they are.
func TestR23(t *testing.T) {
	for _, c := range []struct {
		name   string
		sc     sim.Script
		header string
		value  string
	}{
		{"429", sim.Script{Status: 429, Framing: sim.ByLength, Header: []string{"Content-Type: application/json", "Retry-After: 2"},
			Writes: []sim.Write{{Bytes: []byte(`{"error":{"message":"slow down"}}`)}}}, "Retry-After", "2"},
		{"503", sim.Script{Status: 503, Framing: sim.ByLength, Header: []string{"Content-Type: application/json"},
			Writes: []sim.Write{{Bytes: []byte(`{"error":{"message":"overloaded"}}`)}}}, "Content-Type", "application/json"},
		{"307 is not followed", sim.Script{Status: 307, Framing: sim.ByLength, Header: []string{"Location: http://elsewhere.example/v1"}},
			"Location", "http://elsewhere.example/v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Config{}, sim.Always(c.sc), func(t *testing.T, w *world) {
				a := w.say(chat())
				if a.err != nil || a.status != c.sc.Status || !bytes.Equal(a.body, bytesOf(c.sc)) || a.header.Get(c.header) != c.value {
					t.Errorf("got %d %q %s=%q (%v), want it as the engine sent it", a.status, a.body, c.header, a.header.Get(c.header), a.err)
				}
				if a.header.Get(errorHeader) != "" {
					t.Error("the engine's answer is marked as ours")
				}
				r := w.record()
				if r.End != stream.Failed || r.Reason != "http_status" || int(r.Status) != c.sc.Status {
					t.Errorf("record: got %s(%s) %d, want failed(http_status) %d", r.End, r.Reason, r.Status, c.sc.Status)
				}
			})
		})
	}
	old := script(r1)
	old.Framing = sim.ByHTTP10
	runCase(t, "HTTP/1.0 until close", old, r1Outcome)
}
