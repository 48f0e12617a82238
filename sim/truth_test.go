package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"
)

// TestTruthIsConsistent: what the log says in one place follows from another.
func TestTruthIsConsistent(t *testing.T) {
	p := demo()
	p.MaxRunning, p.EOS = 3, Lengths{Median: 100, Sigma: 0.7}
	inBubble(t, p, Options{Seed: 7}, func(b *bench) {
		var bodies []string
		for i := range 12 {
			more := ""
			if i%3 == 0 {
				more = `,"n":2`
			}
			bodies = append(bodies, chatBody(p, 1024, 300, fmt.Sprint("s", i), more))
		}
		b.together(bodies, nil)
		log := b.srv.Truth()
		totals := log.Totals()
		var tokens, prompt, chunks int64
		var running, decoding, waiting time.Duration
		var last time.Duration
		for _, r := range log.Requests() {
			if !(r.Arrived <= r.Admitted && r.Admitted < r.FirstToken && r.FirstToken <= r.Ended) {
				t.Errorf("request %d: arrived %v, admitted %v, first token %v, ended %v", r.Seq, r.Arrived, r.Admitted, r.FirstToken, r.Ended)
			}
			sum := int32(0)
			for i, e := range r.Emits {
				if sum += e.Tokens; e.Total != sum || e.At != e.Due || i > 0 && e.At < r.Emits[i-1].At {
					t.Errorf("request %d, emit %d: %+v after %d tokens", r.Seq, i, e, sum)
				}
			}
			if int(sum) != r.Tokens || len(r.Emits) == 0 || r.Emits[0].At != r.FirstToken || r.Emits[len(r.Emits)-1].At != r.Ended {
				t.Errorf("request %d: %d tokens in the emits, %d in all", r.Seq, sum, r.Tokens)
			}
			tokens += int64(r.Tokens)
			prompt += int64(r.Prompt)
			chunks += int64(len(r.Emits))
			n := time.Duration(r.Choices)
			running += n * (r.Ended - r.Admitted)
			decoding += n * (r.Ended - r.FirstToken)
			waiting += n * (r.Admitted - r.Arrived)
			last = max(last, r.Ended)
		}
		if totals.Generated != tokens || totals.Prompt != prompt || totals.Chunks != chunks || totals.Finished[Stop]+totals.Finished[Length] != 12 {
			t.Errorf("totals %+v; requests: %d tokens, %d prompt tokens, %d chunks", totals, tokens, prompt, chunks)
		}
		if got := log.Tokens(0, last+1); int64(got) != tokens {
			t.Errorf("Tokens = %d, want %d", got, tokens)
		}
		if got := log.Tokens(0, last); int64(got) >= tokens {
			t.Errorf("Tokens = %d: the window is open at its end", got)
		}
		// The sum over requests of their time in a state is the integral of its gauge.
		for _, c := range []struct {
			name  string
			want  time.Duration
			value func(Gauge) int
		}{
			{"running", running, func(g Gauge) int { return g.Running }},
			{"decoding", decoding, func(g Gauge) int { return g.Decoding }},
			{"waiting", waiting, func(g Gauge) int { return g.Waiting }},
		} {
			if got := log.Mean(0, last, c.value) * float64(last); math.Abs(got-float64(c.want)) > 1e3 {
				t.Errorf("integral of %s: %v, want %v", c.name, time.Duration(got), c.want)
			}
		}
		for i, g := range log.Gauges() {
			if i > 0 && g.At <= log.Gauges()[i-1].At {
				t.Errorf("gauge %d of %v follows one of %v", i, g.At, log.Gauges()[i-1].At)
			}
		}
		if g := log.Gauges(); g[len(g)-1] != (Gauge{At: last}) {
			t.Errorf("last gauge %+v, want all zero at %v", g[len(g)-1], last)
		}
	})
}

func TestTruthAsJSON(t *testing.T) {
	p := plain()
	inBubble(t, p, Options{}, func(b *bench) {
		b.do("POST", "/v1/chat/completions", chatBody(p, 50, 3, "a", ""), nil)
		var direct bytes.Buffer
		if err := b.srv.Truth().WriteJSON(&direct); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Requests []Request
			Totals   Totals
		}
		a := b.do("GET", "/sim/truth", "", nil)
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			t.Fatal(err)
		}
		if a.body != direct.String() || len(got.Requests) != 1 || len(got.Requests[0].Emits) != 3 || got.Totals.Generated != 3 {
			t.Errorf("/sim/truth: %s", a.body)
		}
	})
}

func TestKeepForgetsTheOldest(t *testing.T) {
	p := plain()
	inBubble(t, p, Options{Keep: 5}, func(b *bench) {
		for i := range 23 {
			b.do("POST", "/v1/chat/completions", chatBody(p, 50, 3, fmt.Sprint("s", i), ""), nil)
			rs := b.srv.Truth().Requests()
			if len(rs) > 10 || rs[len(rs)-1].Seq != i || len(rs) < min(i+1, 5) {
				t.Fatalf("after %d requests %d are kept, the last is %d", i+1, len(rs), rs[len(rs)-1].Seq)
			}
			if g := b.srv.Truth().Gauges(); g[0].At > rs[0].Arrived || len(g) > 60 {
				t.Fatalf("%d gauges from %v, the oldest request is of %v", len(g), g[0].At, rs[0].Arrived)
			}
		}
		if n := b.srv.Truth().Totals().Generated; n != 69 {
			t.Errorf("%d tokens in all, want 69: totals never forget", n)
		}
	})
}
