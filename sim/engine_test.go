package sim

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// together sends bodies at one instant and returns the answers in order.
func (b *bench) together(bodies []string, stop func(event) bool) []answer {
	answers := make([]answer, len(bodies))
	var wg sync.WaitGroup
	for i, body := range bodies {
		wg.Go(func() { answers[i] = b.do("POST", "/v1/chat/completions", body, stop) })
	}
	wg.Wait()
	return answers
}

func TestPromptCacheCutsPrefill(t *testing.T) {
	p := plain()
	p.CacheReport = true
	inBubble(t, p, Options{}, func(b *bench) {
		ttft := func(body string) time.Duration {
			start := time.Now()
			a := b.do("POST", "/v1/chat/completions", body, nil)
			if a.err != nil || a.status != 200 {
				t.Fatalf("status %d, error %v, %s", a.status, a.err, a.body)
			}
			return a.events[0].at.Sub(start)
		}
		body := chatBody(p, 10000, 1, "salt", usage)
		if got, want := ttft(body), 200*time.Millisecond; got != want {
			t.Errorf("cold: first event after %v, want %v (10000 tokens of 20 µs)", got, want)
		}
		if got, want := ttft(body), 50*time.Millisecond; got != want {
			t.Errorf("warm: first event after %v, want %v", got, want)
		}
		if got, want := ttft(chatBody(p, 10000, 1, "other", usage)), 200*time.Millisecond; got != want {
			t.Errorf("another salt at position 0: first event after %v, want %v", got, want)
		}
		if got, want := ttft(chatBody(p, 10000, 1, "salt", `,"cache_salt":"x"`)), 200*time.Millisecond; got != want {
			t.Errorf("another cache_salt: first event after %v, want %v", got, want)
		}
		rs := b.srv.Truth().Requests()
		// 10000 tokens are 625 blocks of 16, and the last one is computed anew.
		for i, want := range []int{0, 624 * 16, 0, 0} {
			if rs[i].Cached != want {
				t.Errorf("request %d: %d tokens cached, want %d", i, rs[i].Cached, want)
			}
		}
	})
}

func TestCachedTokensInUsage(t *testing.T) {
	p := plain()
	p.CacheReport = true
	inBubble(t, p, Options{}, func(b *bench) {
		for i, want := range []int{0, 992} {
			a := b.do("POST", "/v1/chat/completions", chatBody(p, 1000, 3, "s", usage), nil)
			u := parseEvent(t, a.events[len(a.events)-2]).Usage
			if u == nil || u.Prompt != 1000 || u.Completion != 3 || u.Details == nil || u.Details.Cached != want {
				t.Errorf("request %d: usage %+v, want 1000 prompt, 3 completion, %d cached", i, u, want)
			}
		}
	})
}

func TestAdmissionByRunningSlots(t *testing.T) {
	p := plain()
	p.MaxRunning = 16
	inBubble(t, p, Options{}, func(b *bench) {
		var bodies []string
		for i := range 64 {
			bodies = append(bodies, chatBody(p, 64, 10, fmt.Sprint("s", i), ""))
		}
		start := time.Now()
		answers := b.together(bodies, nil)
		ends := map[time.Duration]int{}
		for _, a := range answers {
			ends[a.events[len(a.events)-1].at.Sub(start)]++
		}
		// Four waves of 16: 50 ms to the first token and 9 more of 10 ms each.
		for wave := 1; wave <= 4; wave++ {
			if at := time.Duration(wave) * 140 * time.Millisecond; ends[at] != 16 {
				t.Errorf("%d streams ended at %v, want 16: %v", ends[at], at, ends)
			}
		}
		log := b.srv.Truth()
		if got := log.Mean(0, 560*time.Millisecond, func(g Gauge) int { return g.Running }); got != 16 {
			t.Errorf("mean running %v, want 16", got)
		}
		if got := log.Mean(0, 560*time.Millisecond, func(g Gauge) int { return g.Waiting }); got != 24 {
			t.Errorf("mean waiting %v, want 24 = (48+32+16+0)/4", got)
		}
	})
}

func TestAdmissionByKV(t *testing.T) {
	p := plain()
	p.KVTokens, p.MaxModelLen = 4096, 4096
	inBubble(t, p, Options{}, func(b *bench) {
		// 1000 prompt tokens and their first output need 63 blocks of 16; of
		// 256 blocks four such requests fit, with 4 blocks left for growth.
		var bodies []string
		for i := range 6 {
			bodies = append(bodies, chatBody(p, 1000, 8, fmt.Sprint("s", i), ""))
		}
		b.together(bodies, nil)
		most := 0
		for _, g := range b.srv.Truth().Gauges() {
			most = max(most, g.Running)
			if g.KVBlocks > 256 {
				t.Errorf("%d blocks in use of 256", g.KVBlocks)
			}
		}
		if most != 4 {
			t.Errorf("at most %d ran at once, want 4", most)
		}
		for _, r := range b.srv.Truth().Requests() {
			if r.End != Length || r.Tokens != 8 {
				t.Errorf("request %d: end %q after %d tokens", r.Seq, r.End, r.Tokens)
			}
		}
	})
}

func TestPreemptionWhenTheCacheIsFull(t *testing.T) {
	p := plain()
	p.KVTokens, p.MaxModelLen = 2048, 2048
	inBubble(t, p, Options{}, func(b *bench) {
		// Two prompts of 992 need 63 blocks each of 128: both run, both grow, and
		// the second gives way when the first takes the last block.
		bodies := []string{chatBody(p, 992, 64, "a", ""), chatBody(p, 992, 64, "b", "")}
		answers := b.together(bodies, nil)
		if n := b.srv.Truth().Totals().Preemptions; n == 0 {
			t.Error("no preemption")
		}
		for i, a := range answers {
			if a.err != nil {
				t.Errorf("stream %d: %v", i, a.err)
			}
		}
		for _, r := range b.srv.Truth().Requests() {
			if r.Tokens != 64 || r.End != Length {
				t.Errorf("request %d: %d tokens, end %q", r.Seq, r.Tokens, r.End)
			}
		}
	})
}

func TestLoadChangesSpeedInMidStep(t *testing.T) {
	p := plain()
	p.Speed.TBT = NewSurface([]Sample{{Concurrency: 1, Time: 10 * time.Millisecond}, {Concurrency: 2, Time: 20 * time.Millisecond}})
	inBubble(t, p, Options{}, func(b *bench) {
		start := time.Now()
		var first answer
		var wg sync.WaitGroup
		wg.Go(func() { first = b.do("POST", "/v1/chat/completions", chatBody(p, 50, 12, "a", ""), nil) })
		time.Sleep(75 * time.Millisecond)
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 2, "b", ""), nil)
		wg.Wait()
		// Tokens at 50, 60, 70; at 75, half way, the step slows down to 20 ms:
		// 85, 105, 125 (b's first), 145 (b's last, which frees the load), then 155, …
		want := []int{50, 60, 70, 85, 105, 125, 145, 155, 165, 175, 185, 195}
		var got []int
		for _, e := range first.events {
			if c := parseEvent(t, e); len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
				got = append(got, int(e.at.Sub(start)/time.Millisecond))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("tokens at %v ms, want %v", got, want)
		}
	})
}

func TestColdPrefillsShareTheDevice(t *testing.T) {
	p := plain()
	inBubble(t, p, Options{}, func(b *bench) {
		start := time.Now()
		for i, a := range b.together([]string{chatBody(p, 10000, 1, "a", ""), chatBody(p, 10000, 1, "b", "")}, nil) {
			if got, want := a.events[0].at.Sub(start), 400*time.Millisecond; got != want {
				t.Errorf("prefill %d took %v, want %v, twice that of one alone", i, got, want)
			}
		}
	})
}

func TestClientGoneFreesItsSlot(t *testing.T) {
	p := plain()
	p.Speed.TBT = NewSurface([]Sample{{Time: time.Second}})
	inBubble(t, p, Options{}, func(b *bench) {
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), func(event) bool { return true })
		synctest.Wait()
		if st := b.srv.sched.status(); st.running != 0 {
			t.Errorf("%d running after the client left, want 0", st.running)
		}
		r := b.srv.Truth().Requests()[0]
		if r.End != ClientGone || r.Ended != 50*time.Millisecond {
			t.Errorf("end %q at %v, want %q at the first token, 50ms", r.End, r.Ended, ClientGone)
		}
	})
}

func TestLingerUnlessAborted(t *testing.T) {
	p := plain()
	p.Dialect, p.Linger = SGLang, 20*time.Second
	leave := func(event) bool { return true }
	inBubble(t, p, Options{}, func(b *bench) {
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 5000, "a", `,"rid":"r1"`), leave)
		time.Sleep(19 * time.Second)
		if st := b.srv.sched.status(); st.running != 1 {
			t.Errorf("%d running 19 s after the client left, want 1", st.running)
		}
		time.Sleep(2 * time.Second)
		if st := b.srv.sched.status(); st.running != 0 {
			t.Errorf("%d running 21 s after the client left, want 0", st.running)
		}
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 5000, "b", `,"rid":"r2"`), leave)
		if a := b.do("POST", "/abort_request", `{"rid":"r2"}`, nil); a.status != 200 {
			t.Errorf("abort: status %d", a.status)
		}
		if st := b.srv.sched.status(); st.running != 0 {
			t.Errorf("%d running after the abort, want 0", st.running)
		}
	})
}

func TestAbortFinishesAnOpenStream(t *testing.T) {
	p := plain()
	p.Dialect = SGLang
	inBubble(t, p, Options{}, func(b *bench) {
		go func() {
			time.Sleep(100 * time.Millisecond)
			b.do("POST", "/abort_request", `{"rid":"r1"}`, nil)
		}()
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 50, 5000, "a", `,"rid":"r1"`), nil)
		if a.err != nil || len(a.events) < 2 {
			t.Fatalf("%d events, error %v", len(a.events), a.err)
		}
		c := parseEvent(t, a.events[len(a.events)-2])
		if r := c.Choices[0].FinishReason; r == nil || *r != "abort" || a.events[len(a.events)-1].data != "[DONE]" {
			t.Errorf("last events %v", a.events[len(a.events)-2:])
		}
	})
}

func TestFaults(t *testing.T) {
	p := plain()
	fault := func(f Fault) Options { return Options{Fault: func(Request) *Fault { return &f }} }
	inBubble(t, p, fault(Fault{After: 3, Kind: ErrorEvent, Message: "boom"}), func(b *bench) {
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), nil)
		n := len(a.events)
		if a.err != nil || n != 6 || parseEvent(t, a.events[n-2]).Error == nil || a.events[n-1].data != "[DONE]" {
			t.Errorf("role, 3 tokens, error and [DONE] expected, got %d events, error %v", n, a.err)
		}
	})
	inBubble(t, p, fault(Fault{After: 3, Kind: Cut}), func(b *bench) {
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), nil)
		if a.err == nil || len(a.events) != 4 {
			t.Errorf("%d events, error %v; want role, 3 tokens and a cut", len(a.events), a.err)
		}
	})
	inBubble(t, p, fault(Fault{After: 3, Kind: Silence}), func(b *bench) {
		c, err := b.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		a := exchange(c, "POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), nil)
		c.Close()
		if timeout, ok := a.err.(interface{ Timeout() bool }); !ok || !timeout.Timeout() || len(a.events) != 4 {
			t.Errorf("%d events, error %v; want role, 3 tokens and a minute of silence", len(a.events), a.err)
		}
	})
}

func TestLoopsLookAsTold(t *testing.T) {
	p := plain()
	p.Loops = []LoopRule{{Concurrency: 1, Share: 1, OnsetMin: time.Second, OnsetMax: 2 * time.Second, PeriodMin: 12, PeriodMax: 20, Faster: 2}}
	inBubble(t, p, Options{Seed: 3}, func(b *bench) {
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 50, 1500, "a", ""), nil)
		r := b.srv.Truth().Requests()[0]
		text := a.text(t, 0)
		if r.LoopToken < 100 || r.LoopToken > 201 {
			t.Errorf("onset at token %d, want 1 s to 2 s of 10 ms", r.LoopToken)
		}
		if got := p.Tokenizer.count(text[:r.LoopChars]); got != r.LoopToken {
			t.Errorf("%d tokens before the loop in the text, the truth says %d", got, r.LoopToken)
		}
		loop := text[r.LoopChars:]
		if n := len(loop) / r.LoopPeriod; n < 20 || strings.Repeat(loop[:r.LoopPeriod], n) != loop[:n*r.LoopPeriod] {
			t.Errorf("%d cycles of %d characters expected in %.80q…", n, r.LoopPeriod, loop)
		}
		last := r.Emits[len(r.Emits)-2]
		if last.Tokens != 2 || r.Emits[10].Tokens != 1 {
			t.Errorf("tokens per chunk %d in the loop and %d before, want 2 and 1", last.Tokens, r.Emits[10].Tokens)
		}
	})
}

func TestSameSeedSameText(t *testing.T) {
	p := plain()
	p.EOS = Lengths{Median: 40, Sigma: 0.5}
	texts := func(seed uint64) (out []string) {
		inBubble(t, p, Options{Seed: seed}, func(b *bench) {
			for _, a := range b.together([]string{chatBody(p, 50, 500, "a", ""), chatBody(p, 50, 500, "b", ""), chatBody(p, 50, 500, "a", "")}, nil) {
				out = append(out, a.text(t, 0))
			}
		})
		return out
	}
	x, y, z := texts(1), texts(1), texts(2)
	if x[1] != y[1] {
		t.Error("the same seed and prompt gave two texts")
	}
	// Which of two equal prompts came first is not told, their texts are.
	if !(x[0] == y[0] && x[2] == y[2] || x[0] == y[2] && x[2] == y[0]) || x[0] == x[2] {
		t.Error("equal prompts: want the same two different texts in each run")
	}
	if x[1] == z[1] {
		t.Error("another seed gave the same text")
	}
}

// TestTCP: the same server in real time; a client that leaves is seen within
// 50 ms though the next token is far off.
func TestTCP(t *testing.T) {
	p := plain()
	p.Speed.TBT = NewSurface([]Sample{{Time: time.Minute}})
	srv := New(p, Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a := exchange(c, "POST", "/v1/chat/completions", chatBody(p, 50, 100, "a", ""), func(e event) bool { return strings.Contains(e.data, `"content":" `) })
	if a.err != nil {
		t.Fatal(a.err)
	}
	c.Close()
	left := time.Since(srv.Truth().Start)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := srv.Truth().Idle(ctx); err != nil {
		t.Error(err)
	}
	if r := srv.Truth().Requests()[0]; r.End != ClientGone || r.Ended-left > 50*time.Millisecond {
		t.Errorf("end %q %v after the client left, want %q within 50ms", r.End, r.Ended-left, ClientGone)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
