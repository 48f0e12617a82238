package stream

import (
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/detect"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// words sends one event per text, 10 ms apart from 100 on, each with a
// continuous usage of 2 tokens; event i is at 100 + 10 i.
func words(texts ...string) (script []write) {
	for i, s := range texts {
		script = append(script, write{100 + 10*float64(i), plus(c(s), 2*(i+1))})
	}
	return script
}

func TestLoopOnset(t *testing.T) {
	// Three events of good text, the third of which ends in the loop's first
	// letters; then a loop of 4 characters in pieces of 10.
	loop := strings.Repeat("duct", 1100)
	texts := []string{"An intro, ", "漢字, then: ", "and so " + loop[:4]}
	for rest := loop[4:]; rest != ""; rest = rest[min(10, len(rest)):] {
		texts = append(texts, rest[:min(10, len(rest))])
	}
	m := NewMeter(Options{Dialect: wire.Chat, StoreText: true})
	sig := play(m, words(texts...))
	if sig&SigLoop == 0 || sig&SigSuspect == 0 {
		t.Fatalf("signals %b, want a suspicion and a loop", sig)
	}
	at, event, ok := m.LoopOnset()
	if !ok || event != 2 || at != ms(110) {
		t.Errorf("LoopOnset = %v ms, event %d, %v; want 110, 2, true", float64(at-origin)/1e6, event, ok)
	}
	r := m.Finish(Cause{Kind: Retired}, ms(9000))
	if r.End != Looped || r.Reason != "confirmed" {
		t.Errorf("end %s(%s), want loop(confirmed)", r.End, r.Reason)
	}
	if len(r.Loops) != 1 {
		t.Fatalf("loops %+v, want the confirmed one alone", r.Loops)
	}
	want := Loop{
		Verdict: "confirmed", Channel: "content", Choice: 0,
		// 10 + 10 + 7 code points come before; the event with the onset is not
		// before it, so 4 tokens are.
		Onset: Some[int64](27), Period: Some[int64](4), Cycles: Some[int64](1100), ConfirmedAt: Some[int64](27 + 4096),
		OnsetToken: Some[int64](4), OnsetNS: Some[int64](110e6),
		SHA256: r.Loops[0].SHA256, Excerpt: "duct",
	}
	if r.Loops[0] != want || len(want.SHA256) != 64 {
		t.Errorf("loop\n got %+v\nwant %+v", r.Loops[0], want)
	}
}

func TestLoopFromTheFirstEvent(t *testing.T) {
	m := NewMeter(Options{Dialect: wire.Chat})
	play(m, words(repeated("duct", 1100)...))
	at, event, ok := m.LoopOnset()
	if !ok || event != 0 || at != 0 {
		t.Errorf("LoopOnset = %d, %d, %v; want 0, 0, true", at, event, ok)
	}
	r := m.Finish(Cause{Kind: Retired}, ms(99999))
	if len(r.Loops) != 1 || r.Loops[0].OnsetNS.OK || r.Loops[0].OnsetToken != Some[int64](0) || r.Loops[0].Excerpt != "" {
		t.Errorf("loops %+v, want one, onset_ns null, onset_token 0, and no text", r.Loops)
	}
}

// Channels and choices are judged apart, and an onset counts the text of its
// own channel only.
func TestLoopChannels(t *testing.T) {
	half := strings.Repeat("duct", 600)
	t.Run("halves in two channels are not joined", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		if sig := play(m, []write{{100, g(half)}, {110, c(half)}, {120, g("x")}}); sig&SigLoop != 0 {
			t.Error("SigLoop")
		}
	})
	t.Run("halves in two choices are not joined", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		if sig := play(m, []write{{100, chunk(0, `{"content":"`+half+`"}`, "null")}, {110, chunk(1, `{"content":"`+half+`"}`, "null")}}); sig&SigLoop != 0 {
			t.Error("SigLoop")
		}
	})
	t.Run("content loops behind reasoning", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		play(m, []write{{100, g("let me think")}, {110, g("some more")}, {120, c("Answer: ")}, {130, k(`{"reasoning_content":"hm","content":"` + half + half + `"}`)}})
		at, event, ok := m.LoopOnset()
		if !ok || event != 3 || at != ms(120) {
			t.Errorf("LoopOnset = %v ms, event %d, %v; want 120, 3, true", float64(at-origin)/1e6, event, ok)
		}
	})
	t.Run("tool arguments loop, the name of the function is none of them", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		play(m, []write{
			{100, k(`{"tool_calls":[{"index":1,"function":{"name":"duct","arguments":""}}]}`)},
			{110, k(`{"tool_calls":[{"index":1,"function":{"arguments":"` + half + half + `"}}]}`)},
		})
		r := m.Finish(Cause{Kind: Retired}, ms(120))
		if len(r.Loops) != 1 || r.Loops[0].Channel != "tool:1" || r.Loops[0].Onset != Some[int64](0) || r.Loops[0].OnsetNS != Some[int64](100e6) {
			t.Errorf("loops %+v, want one in tool:1 with onset 0 behind the event at 100 ms", r.Loops)
		}
	})
	t.Run("of two loops the earlier counts, whichever channel is judged first", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		play(m, []write{{90, c("x")}, {100, g("y")}, {110, g(half + half)}, {120, c(half + half)}})
		if at, event, ok := m.LoopOnset(); !ok || event != 2 || at != ms(100) {
			t.Errorf("LoopOnset = %v ms, event %d, %v; want 100, 2, true", float64(at-origin)/1e6, event, ok)
		}
	})
	t.Run("the event before an onset is of the same choice", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		say := func(i int, s string) string { return chunk(i, `{"content":"`+s+`"}`, "null") }
		play(m, []write{{100, say(0, "a")}, {110, say(1, "b")}, {120, say(0, half+half)}})
		if at, event, ok := m.LoopOnset(); !ok || event != 2 || at != ms(100) {
			t.Errorf("LoopOnset = %v ms, event %d, %v; want 100, 2, true", float64(at-origin)/1e6, event, ok)
		}
	})
	t.Run("more channels than are judged are told", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		for i := range 2 * maxDetectors {
			m.Observe([]byte(chunk(i, `{"content":"a"}`, "null")), ms(float64(i)))
		}
		if r := m.Finish(Cause{Kind: Cancel}, ms(999)); len(m.detectors) != maxDetectors || strings.Join(r.Flags, " ") != "detect_off" {
			t.Errorf("%d detectors, flags %v; want %d and detect_off", len(m.detectors), r.Flags, maxDetectors)
		}
	})
	t.Run("limits of the next stream are its own", func(t *testing.T) {
		strict := Options{Dialect: wire.Chat, Limits: detect.Limits{Chars: 512}}
		m := NewMeter(strict)
		if sig := play(m, []write{{100, c(half)}}); sig&SigLoop == 0 {
			t.Error("2400 characters at a limit of 512: no SigLoop")
		}
		m.Reset(Options{Dialect: wire.Chat})
		if sig := play(m, []write{{100, c(half)}}); sig&SigLoop != 0 {
			t.Error("2400 characters at the default limit: SigLoop")
		}
	})
	t.Run("white space", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat})
		play(m, []write{{100, c("a")}, {110, c(strings.Repeat(`\n`, 1500))}})
		if r := m.Finish(Cause{Kind: Retired}, ms(120)); r.Reason != "whitespace" {
			t.Errorf("reason %q, want whitespace", r.Reason)
		}
	})
	t.Run("detection off", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat, NoDetect: true})
		if sig := play(m, []write{{100, c(half + half)}}); sig&(SigLoop|SigSuspect) != 0 {
			t.Errorf("signals %b", sig)
		}
	})
	t.Run("limits out of range are told", func(t *testing.T) {
		m := NewMeter(Options{Dialect: wire.Chat, Limits: detect.Limits{Cycles: 1}})
		play(m, []write{{100, c(half + half)}})
		if r := m.Finish(Cause{Kind: EOF}, ms(120)); len(r.Flags) != 1 || r.Flags[0] != "detect_off" {
			t.Errorf("flags %v, want detect_off", r.Flags)
		}
	})
}

func TestLoopCompletedAllTheSame(t *testing.T) {
	// The proxy observes: the stream is not retired, the verdict is recorded.
	m := NewMeter(Options{Dialect: wire.Chat})
	play(m, []write{{100, c("a")}, {110, c(strings.Repeat("duct", 1100))}, {120, fin("length") + done}})
	r := m.Finish(Cause{Kind: EOF}, ms(130))
	if r.End != Completed || len(r.Loops) != 1 || !r.Loops[0].Acts() {
		t.Errorf("end %s, loops %+v; want completed with one acting verdict", r.End, r.Loops)
	}
}

func TestEngineVerdict(t *testing.T) {
	m := NewMeter(Options{Dialect: wire.Chat})
	sig := play(m, []write{{100, c("some text:")}, {110, c(strings.Repeat("ab cd ", 50))}, {120, fin("repetition") + done}})
	if sig&SigLoop != 0 {
		t.Error("SigLoop: there is nothing to retire, and the usage is still to come")
	}
	r := m.Finish(Cause{Kind: EOF}, ms(130))
	if r.End != Looped || r.Reason != "engine" || len(r.Loops) != 1 {
		t.Fatalf("end %s(%s), loops %+v; want loop(engine) with one verdict", r.End, r.Reason, r.Loops)
	}
	l := r.Loops[0]
	if l.Verdict != "engine" || !l.Acts() || l.Period != Some[int64](6) || !l.OnsetNS.OK || l.OnsetNS.V != 100e6 {
		t.Errorf("verdict %+v; want engine, period 6, onset behind the event at 100 ms", l)
	}

	m.Reset(Options{Dialect: wire.Chat})
	play(m, []write{{100, c("nothing that repeats")}, {120, fin("repetition") + done}})
	r = m.Finish(Cause{Kind: EOF}, ms(130))
	if len(r.Loops) != 1 || r.Loops[0].Onset.OK || r.Loops[0].OnsetNS.OK {
		t.Errorf("loops %+v; want one whose onset is not known", r.Loops)
	}
}

func TestCandidate(t *testing.T) {
	m := NewMeter(Options{Dialect: wire.Chat})
	text := "good text that ends here. "
	loop := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz, and ", 8)
	sig := play(m, []write{{100, c(text)}, {110, c(text[:4])}, {120, c(loop)}})
	if sig&(SigLoop|SigSuspect) != 0 {
		t.Fatalf("signals %b: 8 cycles of 42 characters are no verdict", sig)
	}
	at, event, ok := m.Candidate()
	if !ok || event != 2 || at != ms(110) {
		t.Errorf("Candidate = %v ms, event %d, %v; want 110, 2, true", float64(at-origin)/1e6, event, ok)
	}
	if _, _, ok := m.LoopOnset(); ok {
		t.Error("a candidate is no acting verdict")
	}
	m.Observe([]byte(c("and now for something else")), ms(130))
	if _, _, ok := m.Candidate(); ok {
		t.Error("the text no longer ends in the repetition")
	}
}

// A log that is full knows no onset beyond its end, and says so.
func TestLogFull(t *testing.T) {
	m := NewMeter(Options{Dialect: wire.Chat, MaxLog: 100})
	texts := []string{}
	for i := range 200 {
		texts = append(texts, strings.Repeat(string(rune('a'+i%26)), 1+i%7)+"-")
	}
	play(m, words(append(texts, repeated("duct", 1100)...)...))
	if _, _, ok := m.LoopOnset(); ok {
		t.Error("an onset behind the end of the log was located")
	}
	r := m.Finish(Cause{Kind: Retired}, ms(99999))
	if r.Tokens != 2600 || r.GeneratedEvents != 1300 || r.Gaps.N != 1299 {
		t.Errorf("tokens %d, events %d, gaps %d; want 2600, 1300, 1299: totals do not need the log", r.Tokens, r.GeneratedEvents, r.Gaps.N)
	}
	if got := strings.Join(r.Flags, " "); got != "log_full" {
		t.Errorf("flags %q, want log_full", got)
	}
}

// A second stream through the same meter knows nothing of the first.
func TestReset(t *testing.T) {
	looping := []write{{100, g("x") + c(strings.Repeat("duct", 1100))}, {110, ev(`{"error":"boom"}`)}, {105, "data: half"}}
	fresh := NewMeter(Options{Dialect: wire.Chat})
	play(fresh, r1(role))
	want := string(fresh.Finish(Cause{Kind: EOF}, ms(600)).Append(nil))

	m := NewMeter(Options{Dialect: wire.Chat, StoreText: true})
	for range 3 {
		m.RequestReceived(ms(-5))
		m.Stamps(stamp.Kernel)
		play(m, looping)
		m.Finish(Cause{Kind: Retired}, ms(120))
		m.Reset(Options{Dialect: wire.Chat})
		play(m, r1(role))
		if got := string(m.Finish(Cause{Kind: EOF}, ms(600)).Append(nil)); got != want {
			t.Fatalf("reused meter:\n%s\nfresh one:\n%s", got, want)
		}
	}
}

func TestInstantsOfARequest(t *testing.T) {
	m := NewMeter(Options{Dialect: wire.Chat})
	m.RequestReceived(ms(-30))
	m.Sent(ms(-20))
	m.Sent(ms(0)) // the pooled connection was stale
	m.Headers(200, ms(10))
	m.Stamps(stamp.Kernel)
	m.Observe([]byte(role+c("a")), ms(500))
	m.Observe([]byte(c("b")+fin("stop")+done), ms(520))
	r := m.Finish(Cause{Kind: EOF}, ms(530))
	for _, v := range []struct {
		name string
		got  Null[int64]
		want float64
	}{
		{"request_received", r.RequestReceivedNS, -30}, {"headers", r.HeadersNS, 10}, {"ttft, from the retry's send", r.TTFTNS, 500}, {"end, at the marker", r.EndNS, 520},
	} {
		if msOf(v.got) != v.want {
			t.Errorf("%s = %v, want %v", v.name, msOf(v.got), v.want)
		}
	}
	if r.Retries != 1 || r.Stamps != "kernel" || r.SentMonoNS != Some(int64(origin)) || !r.SentRealNS.OK {
		t.Errorf("retries %d, stamps %s, sent_mono_ns %+v, sent_real_ns %+v; want 1, kernel, %d, any", r.Retries, r.Stamps, r.SentMonoNS, r.SentRealNS, origin)
	}
	never := NewMeter(Options{Dialect: wire.Chat})
	if r := never.Finish(Cause{Kind: Connect}, ms(1)); r.SentMonoNS.OK || r.EndNS.OK || r.Status != 0 {
		t.Errorf("never sent: sent_mono_ns %+v, end_ns %+v, status %d; want null, null, 0", r.SentMonoNS, r.EndNS, r.Status)
	}
}
