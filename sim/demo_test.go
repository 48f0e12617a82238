package sim

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// cleanShare plays one cell as the load generator's salvage rule does, with the
// truth for a detector: a stream is retired once its loop has run for 4096
// characters and 4 cycles. It returns clean stream-time / (C · window).
func cleanShare(t *testing.T, p Profile, context, concurrency int) (share float64, loops int) {
	inBubble(t, p, Options{Seed: 1}, func(b *bench) {
		plan := p.Suggested
		b.do("POST", "/v1/chat/completions", chatBody(p, context-30, 1, "prime", ""), nil)
		start := time.Now()
		ttft := time.Duration(p.Speed.TTFT.At(context, concurrency))
		open := start.Add(ttft + plan.Settle)
		end := open.Add(plan.Duration)
		var wg sync.WaitGroup
		for i := range concurrency {
			wg.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					chars := 0
					id := fmt.Sprintf("s%dn%d", i, n)
					body := chatBody(p, context-10, plan.MaxTokens, "prime", fmt.Sprintf(`,"request_id":%q,"x":"%d"`, id, i))
					b.do("POST", "/v1/chat/completions", body, func(e event) bool {
						for _, c := range parseEvent(t, e).Choices {
							chars += len(c.Delta.Content)
						}
						r := b.truthOf(id)
						need := max(4096, 4*r.LoopPeriod)
						return !e.at.Before(end) || r.LoopChars >= 0 && chars-r.LoopChars >= need
					})
				}
			})
		}
		wg.Wait()
		log := b.srv.Truth()
		from, to := open.Sub(log.Start), end.Sub(log.Start)
		var clean time.Duration
		for _, r := range log.Requests() {
			if len(r.Emits) == 0 || r.Emits[len(r.Emits)-1].Total == 1 {
				continue // the prime
			}
			last := min(to, r.Emits[len(r.Emits)-1].At)
			if r.LoopChars >= 0 {
				loops++
				i := slices.IndexFunc(r.Emits, func(e Emit) bool { return int(e.Total) > r.LoopToken })
				last = min(last, r.Emits[max(0, i-1)].At)
			}
			if first := max(from, r.FirstToken); last > first {
				clean += last - first
			}
		}
		share = float64(clean) / float64(plan.Duration) / float64(concurrency)
	})
	return share, loops
}

func (b *bench) truthOf(id string) Request {
	rs := b.srv.Truth().Requests()
	return rs[slices.IndexFunc(rs, func(r Request) bool { return r.ID == id })]
}

// TestDemoMeetsEveryKindOfCell: the demo's suggested plan must show valid,
// looped, salvaged and over-capacity cells, in well under a minute.
func TestDemoMeetsEveryKindOfCell(t *testing.T) {
	p, err := Lookup("demo")
	if err != nil {
		t.Fatal(err)
	}
	plan := p.Suggested
	kinds := map[string]int{}
	var total time.Duration
	for _, context := range plan.Contexts {
		for _, c := range plan.Concurrency {
			kind := "valid"
			switch {
			case context+plan.MaxTokens > p.MaxModelLen:
				t.Errorf("%d + %d tokens exceed the model's %d", context, plan.MaxTokens, p.MaxModelLen)
			case c*(context+plan.MaxTokens) > p.KVTokens:
				kind = "over_capacity"
			default:
				share, loops := cleanShare(t, p, context, c)
				// Half is the border; a cell near it would flip from run to run.
				switch {
				case loops == 0:
				case share > 0.6:
					kind = "salvaged"
				case share < 0.45:
					kind = "looped"
				default:
					kind = "undecided"
				}
				t.Logf("%d × %d: %s, %d loops, clean share %.2f", context, c, kind, loops, share)
				total += plan.Settle + plan.Duration + time.Second
			}
			kinds[kind]++
		}
	}
	if kinds["valid"] != 5 || kinds["salvaged"] != 1 || kinds["looped"] != 1 || kinds["over_capacity"] != 1 {
		t.Errorf("cells: %v", kinds)
	}
	if total > 45*time.Second {
		t.Errorf("the cells take %v", total)
	}
}
