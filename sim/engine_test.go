package sim

import (
	"fmt"
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
		// the second gives way when the first takes the last block. A third has
		// to wait until the second has had its turn again.
		var wg sync.WaitGroup
		for _, salt := range []string{"a", "b", "c"} {
			wg.Go(func() {
				if a := b.do("POST", "/v1/chat/completions", chatBody(p, 992, 64, salt, ""), nil); a.err != nil {
					t.Errorf("stream %s: %v", salt, a.err)
				}
			})
			<-time.After(time.Microsecond)
		}
		wg.Wait()
		log := b.srv.Truth()
		if got := log.Totals(); got.Preemptions == 0 || got.Prompt != 3*992 {
			t.Errorf("%d preemptions, %d prompt tokens; want some, and each prompt counted once", got.Preemptions, got.Prompt)
		}
		rs := log.Requests()
		for _, r := range rs {
			if r.Tokens != 64 || r.End != Length {
				t.Errorf("request %d: %d tokens, end %q", r.Seq, r.Tokens, r.End)
			}
		}
		if rs[1].Preemptions == 0 || rs[0].Preemptions != 0 || rs[2].Admitted < rs[1].Admitted {
			t.Errorf("preempted %d, %d times; the third was admitted at %v, the second again at %v",
				rs[0].Preemptions, rs[1].Preemptions, rs[2].Admitted, rs[1].Admitted)
		}
	})
}

// TestAloneAndOutOfCache: nobody is left to give way, so the reply ends.

func TestAloneAndOutOfCache(t *testing.T) {
	p := plain()
	p.KVTokens, p.MaxModelLen = 1024, 4096
	inBubble(t, p, Options{}, func(b *bench) {
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 992, 500, "a", ""), nil)
		last := parseEvent(t, a.events[len(a.events)-2])
		r := b.srv.Truth().Requests()[0]
		if len(last.Choices) != 1 || last.Choices[0].FinishReason == nil || *last.Choices[0].FinishReason != "length" || r.End != Length {
			t.Errorf("last chunk %+v, end %q", last, r.End)
		}
		if r.Tokens < 1024-992 || r.Tokens > 1024-992+16 {
			t.Errorf("%d tokens beside 992 in a cache of 1024", r.Tokens)
		}
	})
}

func TestChoicesTakeASlotEach(t *testing.T) {
	p := plain()
	p.MaxRunning = 3
	inBubble(t, p, Options{}, func(b *bench) {
		b.together([]string{chatBody(p, 50, 5, "a", `,"n":2`), chatBody(p, 50, 5, "b", `,"n":2`)}, nil)
		for _, g := range b.srv.Truth().Gauges() {
			if g.Running > 3 {
				t.Errorf("%d sequences running of 3", g.Running)
			}
		}
	})
}

func TestLateReaderKeepsItsDueStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plain().withDefaults()
		p.Speed.TTFT = NewSurface([]Sample{{Concurrency: 1, Time: time.Second}, {Concurrency: 2, Time: 3 * time.Second}})
		s := newScheduler(p, time.Now())
		enter := func() *job {
			j := &job{log: s.log.open(Request{}), n: 1, prompt: 16, wake: make(chan struct{}, 1)}
			s.enter(j, s.now())
			return j
		}
		late := enter()
		<-time.After(1500 * time.Millisecond) // its reader is held up
		enter()
		if _, due := s.look(late); due != int64(time.Second) {
			t.Errorf("a step due at 1s was moved to %v by a later change of load", time.Duration(due))
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
		<-time.After(75 * time.Millisecond)
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

// TestTCP: the same server in real time; a client that leaves is seen within

// 50 ms though the next token is far off.

// TestKeepAlive: the read that watches for the client's leaving brings the next

// request when the client stays.

// TestLlamaClosesUnannounced: after a stream the connection ends though the

// header speaks of keep-alive, as captured. Pooled connections must survive it.

// TestLoopDoesNotBeginEarly: the letter before a loop is not the one that ends

// the cycle, else the text would repeat from before the logged onset.
