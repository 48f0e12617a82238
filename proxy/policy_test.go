package proxy

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamgauge/streamgauge/detect"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stream"
)

func TestParsePolicy(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Policy
		err  string
	}{
		{"cut", Policy{Action: Cut}, ""},
		{"tag:route=chat", Policy{Tag, "chat", ""}, ""},
		{"cut:model=foo,route=chat", Policy{Cut, "chat", "foo"}, ""},
		{" observe: model = org/foo-* ", Policy{Observe, "", "org/foo-*"}, ""},
		{"cut:model=a=b", Policy{Cut, "", "a=b"}, ""},
		{"", Policy{}, "must begin with observe, tag or cut"},
		{"kill", Policy{}, "must begin with observe, tag or cut"},
		{"cut:", Policy{}, `"" is neither route=… nor model=…`},
		{"cut:channel=x", Policy{}, `"channel=x" is neither`},
		{"cut:model", Policy{}, "model has no value"},
		{"cut:model=", Policy{}, "model has no value"},
		{"cut:model=a,model=b", Policy{}, "model stands twice"},
		{"cut:route=embeddings", Policy{}, "the route must be one of chat, completions"},
		{"tag:route=messages", Policy{Action: Tag, Route: "messages"}, ""},
		{"cut:route=messages", Policy{}, "only streams of chat and completions can be cut"},
		{"cut:model=a*b", Policy{}, "a * can only stand at the end"},
	} {
		got, err := ParsePolicy(c.in)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: got %+v (%v), want %+v (%s)", c.in, got, err, c.want, c.err)
		}
		if again, err := ParsePolicy(got.String()); c.err == "" && (again != got || err != nil) {
			t.Errorf("%q: %q reads as %+v (%v)", c.in, got, again, err)
		}
	}
}

// policies parses a list.
func policies(t *testing.T, texts ...string) (out []Policy) {
	t.Helper()
	for _, s := range texts {
		p, err := ParsePolicy(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// The first policy that matches holds.
func TestPolicyOrder(t *testing.T) {
	r := rules{policies: policies(t, "observe:model=org/good-*", "tag:model=m,route=completions", "cut:route=chat")}
	for _, c := range []struct {
		route, model string
		want         Action
	}{
		{"chat", "org/good-1", Observe},
		{"chat", "org/bad", Cut},
		{"chat", "", Cut},
		{"completions", "m", Tag},
		{"completions", "other", Observe},
	} {
		if got := r.action(c.route, c.model); got != c.want {
			t.Errorf("%s of %q: got %s, want %s", c.route, c.model, got, c.want)
		}
	}
}

func TestPolicyMistakes(t *testing.T) {
	err := Config{Upstreams: []string{"http://h"}, Policies: []Policy{{Action: "kill"}, {Action: Cut}}, NoDetect: true, InjectUsage: []string{"chat", "rerank"}}.Validate()
	for _, want := range []string{`policy "kill"`, `policy "cut" needs the detector`, `route "rerank"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a mistake with %s", err, want)
		}
	}
}

// small are limits at which a loop is confirmed after 512 characters.
var small = detect.Limits{Cycles: 3, Chars: 512}

const (
	ident     = `"id":"c-1","object":"chat.completion.chunk","created":7,"model":"m",`
	block     = "The same sentence comes again, and again. "
	chatLast  = "data: {" + ident + `"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"repetition"}]}` + "\n\ndata: [DONE]\n\n"
	firstLoop = 1 // events before the loop
)

// looping is a stream of n repeated chunks behind a role chunk. It has no end.
func looping(n int) (body []byte) {
	body = append(body, "data: {"+ident+`"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`+"\n\n"...)
	for range n {
		body = append(body, "data: {"+ident+`"choices":[{"index":0,"delta":{"content":"`+block+`"}}]}`+"\n\n"...)
	}
	return body
}

// confirmed returns how many chunks of looping the verdict needs.
func confirmed(t *testing.T, limits detect.Limits) int {
	t.Helper()
	loop, err := detect.New(limits)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 100; n++ {
		loop.Feed([]byte(block))
		if loop.Level().Acts() {
			return n
		}
	}
	t.Fatal("no verdict after 100 chunks")
	return 0
}

// boundaries are the offsets behind each event.
func boundaries(body []byte) (out []int) {
	for i := 0; ; {
		j := bytes.Index(body[i:], []byte("\n\n"))
		if j < 0 {
			return out
		}
		i += j + 2
		out = append(out, i)
	}
}

// cutScript writes a body so that one write ends at k, and then hangs. Each write
// is small enough to be one read.
func cutScript(body []byte, k int) (sc sim.Script, writes []int) {
	const size = 311
	last := 0
	for last < len(body) {
		end := min(last+size, len(body))
		if last < k && k < end {
			end = k
		}
		writes = append(writes, end)
		sc.Writes = append(sc.Writes, sim.Write{At: time.Duration(len(writes)) * time.Millisecond, Bytes: body[last:end]})
		last = end
	}
	sc.End = sim.Hang
	return sc, writes
}

// TestCutEveryOffset cuts a looping stream whose reads end at every offset. What
// the client gets is, byte for byte, the engine's stream up to the first end of
// an event at or behind the read that brought the verdict, and our end.
func TestCutEveryOffset(t *testing.T) {
	n := confirmed(t, small)
	body := looping(n + 3)
	ends := boundaries(body)
	decided := ends[firstLoop+n-1] // the event that brings the verdict ends here
	step := 1
	if testing.Short() {
		step = 7
	}
	bubble(t, Config{Limits: small, Policies: policies(t, "cut:route=chat,model=m")},
		func(i int, _ *sim.Played) sim.Script { sc, _ := cutScript(body, 1+i*step); return sc },
		func(t *testing.T, w *world) {
			requests := 0
			for k := 1; k <= len(body); k += step {
				_, writes := cutScript(body, k)
				read := first(writes, decided)
				want := string(body[:first(ends, read)]) + chatLast
				a := w.say(chat())
				if string(a.body) != want || a.err != nil {
					t.Fatalf("reads end at %v: got %d bytes ending %q (%v), want %d bytes ending %q", writes, len(a.body), tail(a.body), a.err, len(want), tail([]byte(want)))
				}
				requests++
			}
			eventually(t, "all upstreams were aborted", func() bool {
				for _, p := range w.up.Played() {
					if p.Gone.IsZero() && p.Err == nil {
						return false
					}
				}
				return true
			})
			for _, r := range w.records() {
				if r.End != stream.Looped || r.Reason != "confirmed" || len(r.Loops) != 1 {
					t.Fatalf("record: end %s(%s) with %d loops, want loop(confirmed) with one", r.End, r.Reason, len(r.Loops))
				}
			}
			if got, want := w.metric(`streamgauge_loops_total{model="m",verdict="confirmed",channel="content",action="cut"}`), fmt.Sprint(requests); got != want {
				t.Errorf("loops_total cut = %s, want %s", got, want)
			}
			if got := w.metric(`streamgauge_requests_total{route="chat",upstream="engine:80",code="200",end="loop"}`); got != fmt.Sprint(requests) {
				t.Errorf("requests_total end=loop = %s, want %d", got, requests)
			}
		})
}

// first is the least of sorted offsets at or behind n.
func first(offsets []int, n int) int {
	for _, o := range offsets {
		if o >= n {
			return o
		}
	}
	return offsets[len(offsets)-1]
}

func tail(b []byte) []byte { return b[max(0, len(b)-260):] }

// TestCutEnds is about streams that are, or are not, cut.
func TestCutEnds(t *testing.T) {
	n := confirmed(t, small)
	body := string(looping(n))
	completions := strings.NewReplacer("chat.completion.chunk", "text_completion", `"delta":{"role":"assistant","content":""}`, `"text":""`).Replace(body)
	completions = strings.ReplaceAll(completions, `"delta":{"content":"`+block+`"}`, `"text":"`+block+`"`)
	usage := strings.ReplaceAll(body, `"}}]}`, `"}}],"usage":{"prompt_tokens":9,"completion_tokens":4}}`)
	fin := "data: {" + ident + `"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	const done = "data: [DONE]\n\n"
	asks := `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`
	for _, c := range []struct {
		name, why string
		request   string
		writes    []string
		length    bool
		want      string
		end       stream.End
	}{
		{"at once", "the verdict's read ends with its event", chat(), []string{body}, false, body + chatLast, stream.Looped},
		{"completions", "its last chunk has a text", post("/v1/completions", chatBody), []string{completions}, false,
			completions + strings.NewReplacer("chat.completion.chunk", "text_completion", `"delta":{}`, `"text":""`).Replace(chatLast), stream.Looped},
		{"usage", "asked for, and the counts came with every chunk", post("/v1/chat/completions", asks), []string{usage}, false,
			usage + strings.Replace(chatLast, done, "data: {"+ident+`"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}`+"\n\n"+done, 1), stream.Looped},
		{"the engine's own end comes with the verdict", "nothing is left to cut", chat(), []string{body + fin + done}, false, body + fin + done, stream.Completed},
		{"its last word begins in the verdict's read", "it is completed, and what came with its end too", chat(), []string{body + fin[:9], fin[9:] + done}, false, body + fin + done, stream.Completed},
		{"another model", "the policy names m", post("/v1/chat/completions", `{"model":"x","stream":true}`), []string{body + fin + done}, false, body + fin + done, stream.Completed},
		{"a body with a length", "it cannot end early", chat(), []string{body + fin + done}, true, body + fin + done, stream.Completed},
		{"an HTTP/1.0 client", "its body ends with the connection, cleanly", strings.Replace(chat(), "HTTP/1.1", "HTTP/1.0", 1), []string{body}, false, body + chatLast, stream.Looped},
		{"the engine dies in an event", "there is no end of an event to cut at", chat(), []string{body + fin[:9], ""}, false, body + fin[:9], stream.Truncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := sim.Script{End: sim.Hang}
			for i, b := range c.writes {
				sc.Writes = append(sc.Writes, sim.Write{At: time.Duration(i) * time.Millisecond, Bytes: []byte(b)})
			}
			broken := c.end == stream.Truncated
			switch {
			case broken:
				sc.End = sim.Drop
			case c.end == stream.Completed:
				sc.End = sim.Finish
			}
			if c.length {
				sc.Framing = sim.ByLength
			}
			bubble(t, Config{Limits: small, Policies: policies(t, "cut:model=m")}, sim.Always(sc), func(t *testing.T, w *world) {
				a := w.say(c.request)
				if string(a.body) != c.want || (a.err != nil) != broken {
					t.Errorf("%s: got …%q (%v), want …%q", c.why, tail(a.body), a.err, tail([]byte(c.want)))
				}
				if r := w.record(); r.End != c.end {
					t.Errorf("%s: record ends as %s(%s), want %s", c.why, r.End, r.Reason, c.end)
				}
			})
		})
	}
}

// The upstream is aborted when the cut is made, not when the client has read it.
func TestCutAbortsAtOnce(t *testing.T) {
	w := sockets(t, Config{Limits: small, Policies: policies(t, "cut")},
		sim.Always(sim.Script{Writes: []sim.Write{{Bytes: looping(confirmed(t, small))}}, End: sim.Hang}))
	defer w.close()
	begun := time.Now()
	if a := w.say(chat()); a.err != nil || !bytes.HasSuffix(a.body, []byte(chatLast)) {
		t.Fatalf("got …%q (%v)", tail(a.body), a.err)
	}
	eventually(t, "the upstream is aborted", func() bool { return !w.up.Played()[0].Gone.IsZero() })
	if took := w.up.Played()[0].Gone.Sub(begun); took > 2*time.Second {
		t.Errorf("aborted after %v", took)
	}
}

func TestTag(t *testing.T) {
	loop := string(looping(confirmed(t, small))) + "data: [DONE]\n\n"
	for _, c := range []struct {
		name, body string
		framing    sim.Framing
		old        bool
		want       string // of the trailer; "-" when none is announced
	}{
		{"a loop", loop, sim.ByChunks, false, "confirmed; channel=content; choice=0; onset=0"},
		{"no loop", string(looping(1)) + "data: [DONE]\n\n", sim.ByChunks, false, "none"},
		{"white space that only the end confirms", strings.ReplaceAll(string(looping(1)), block, strings.Repeat(" ", 1100)) + "data: [DONE]\n\n", sim.ByChunks, false, "whitespace; channel=content; choice=0; onset=0"},
		{"a body until the close comes in chunks", loop, sim.ByClose, false, "confirmed; channel=content; choice=0; onset=0"},
		{"a body with a length has no trailer", loop, sim.ByLength, false, "-"},
		{"nor has HTTP/1.0", loop, sim.ByChunks, true, "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := sim.Script{Framing: c.framing, Writes: []sim.Write{{Bytes: []byte(c.body)}}}
			bubble(t, Config{Limits: small, Policies: policies(t, "tag")}, sim.Always(sc), func(t *testing.T, w *world) {
				raw := chat()
				if c.old {
					raw = strings.Replace(raw, "HTTP/1.1", "HTTP/1.0", 1)
				}
				a := w.say(raw)
				if string(a.body) != c.body || a.err != nil {
					t.Errorf("the body is touched: got …%q (%v)", tail(a.body), a.err)
				}
				got := a.trailer.Get(loopTrailer)
				if _, announced := a.trailer[loopTrailer]; !announced {
					got = "-"
				}
				if got != c.want {
					t.Errorf("trailer %q, want %q", got, c.want)
				}
				if r := w.record(); r.End != stream.Completed {
					t.Errorf("record ends as %s(%s), want completed", r.End, r.Reason)
				}
				if !strings.HasPrefix(c.want, "confirmed") {
					return
				}
				if got := w.metric(`streamgauge_loops_total{model="m",verdict="confirmed",channel="content",action="tag"}`); got != "1" {
					t.Errorf("loops_total tag = %q, want 1", got)
				}
			})
		})
	}
}

// The engine's own trailers stay.
func TestTagBesideTrailers(t *testing.T) {
	raw := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTrailer: X-Engine\r\nTransfer-Encoding: chunked\r\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\nX-Engine: 1\r\n\r\n"
	sc := sim.Script{Framing: sim.ByItself, Writes: []sim.Write{{Bytes: []byte(raw)}}}
	bubble(t, Config{Policies: policies(t, "tag")}, sim.Always(sc), func(t *testing.T, w *world) {
		a := w.say(chat())
		if a.trailer.Get("X-Engine") != "1" || a.trailer.Get(loopTrailer) != "none" {
			t.Errorf("trailers %v, want X-Engine 1 and %s none", a.trailer, loopTrailer)
		}
	})
}

func TestInjectUsage(t *testing.T) {
	const asking = `{"stream_options":{"include_usage":true},"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	large := `{"model":"m","stream":true,"prompt":"` + strings.Repeat("x", 2*inlineFacts) + `"}`
	for _, c := range []struct{ name, target, body, want string }{
		{"chat", "/v1/chat/completions", chatBody, asking},
		{"a large body", "/v1/chat/completions", large, `{"stream_options":{"include_usage":true},` + large[1:]},
		{"another route", "/v1/completions", chatBody, chatBody},
		{"it declines", "/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":false}}`, `{"stream":true,"stream_options":{"include_usage":false}}`},
		{"no stream", "/v1/chat/completions", `{"model":"m"}`, `{"model":"m"}`},
		{"no JSON", "/v1/chat/completions", `x`, `x`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := memory(t, Config{InjectUsage: []string{"chat"}}, sim.Always(script(`C("a")@1 | FIN("stop") U(3,1) D @2`)))
				defer func() { w.close(); <-time.After(time.Minute) }()
				if a := w.say(post(c.target, c.body)); a.err != nil || !strings.Contains(string(a.body), `"usage"`) {
					t.Errorf("got %q (%v), want the usage chunk too", a.body, a.err)
				}
				p := w.up.Played()[0]
				if got := string(p.Body); got != c.want {
					t.Errorf("the upstream got %.120q, want %.120q", got, c.want)
				}
				if got := p.Header.Get("Content-Length"); got != fmt.Sprint(len(c.want)) {
					t.Errorf("Content-Length %s, want %d", got, len(c.want))
				}
			})
		})
	}
}
