package loadgen

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/sim"
)

// TestBisection: the highest whole level that holds is found exactly, a rate within
// 5 %, in a bounded number of cells.
func TestBisection(t *testing.T) {
	for most := 1.0; most <= 130; most++ {
		for limit := 0.0; limit <= most+1; limit++ {
			b := bisection{least: 1, most: most, whole: true}
			for l, more := b.next(); more; l, more = b.next() {
				if l < 1 || l > most {
					t.Fatalf("level %g of 1..%g", l, most)
				}
				b.note(l, l <= limit)
			}
			if want := min(limit, most); b.good != want || b.tried > 16 {
				t.Fatalf("1..%g with a limit of %g: found %g in %d cells, want %g", most, limit, b.good, b.tried, want)
			}
		}
	}
	for _, limit := range []float64{.3, 1, 7.3, 14.8, 63, 100} {
		b := bisection{least: .5, most: 64}
		for l, more := b.next(); more; l, more = b.next() {
			b.note(l, l <= limit)
		}
		switch {
		case limit < .5 && b.good == 0, limit > 64 && b.good == 64:
		case b.good > limit || b.good*rateStep < min(limit, 64) || b.tried > maxSearch:
			t.Errorf("limit %g/s: found %g/s in %d cells", limit, b.good, b.tried)
		}
	}
}

func notes(r *rig, code string) (out []string) {
	for _, n := range r.file().Notes {
		if n.Code == code {
			out = append(out, n.Message)
		}
	}
	return out
}

// TestSearchConcurrency: an engine whose time between tokens is 4 ms and one more for
// each stream holds 30.5 ms up to 26 streams.
func TestSearchConcurrency(t *testing.T) {
	p := profile(t, "plain")
	p.Speed.TBT = sim.NewSurface([]sim.Sample{{Concurrency: 1, Time: 5 * time.Millisecond}, {Concurrency: 101, Time: 105 * time.Millisecond}})
	cfg := Config{
		Contexts: []int{0}, Concurrency: []int{1, 64}, NoPrefill: true, SLO: SLO{TTFT: time.Second, TBT: 30500 * time.Microsecond},
		Duration: 5 * time.Second, Settle: time.Second, MaxTokens: 2000,
	}
	bubble(t, p, sim.Options{}, func(r *rig) {
		out := r.run(cfg)
		var tried []int
		for _, c := range out.Cells {
			tried = append(tried, c.Concurrency)
		}
		if got, want := fmt.Sprint(tried), "[1 2 4 8 16 32 24 28 26 27]"; got != want {
			t.Errorf("tried %s, want %s", got, want)
		}
		result := notes(r, "slo_result")
		if len(result) != 1 || !strings.Contains(result[0], "the highest is concurrency 26; concurrency 27 fails (10 cells)") {
			t.Errorf("found %q, want concurrency 26", result)
		}
		trace := notes(r, "slo")
		if len(trace) != 10 || !strings.Contains(trace[5], "concurrency 32: ") || !strings.HasSuffix(trace[5], ": fails") || !strings.Contains(trace[5], "TBT p95 36") {
			t.Errorf("trace %q, want the ten cells with what was seen", trace)
		}
	})
}

// TestSearchRate: eight places of 540 ms serve 14.8 requests a second; beyond that
// the queue grows and first tokens come later and later.
func TestSearchRate(t *testing.T) {
	p := profile(t, "plain")
	p.MaxRunning = 8
	cfg := offer(1, 64)
	cfg.SLO = SLO{TTFT: 100 * time.Millisecond}
	bubble(t, p, sim.Options{}, func(r *rig) {
		out := r.run(cfg)
		best := 0.0
		for _, c := range out.Cells {
			if ok, _ := cfg.SLO.holds(&c); ok {
				best = max(best, c.Offered.Rate)
			}
		}
		if best > 8/.54+.2 || best < 8/.54/rateStep-.2 {
			t.Errorf("the highest rate found is %.2f/s, want 14.8/s less at most 5 %%", best)
		}
		if result := notes(r, "slo_result"); len(result) != 1 || !strings.Contains(result[0], fmt.Sprintf("the highest is %.4g/s", best)) {
			t.Errorf("found %q, want %.4g/s", result, best)
		}
	})
}

// TestSearchEnds: a search that nothing satisfies, or everything, says so.
func TestSearchEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		slo   SLO
		cells int
		says  string
	}{
		{"nothing holds", SLO{TBT: time.Millisecond}, 1, "does not hold at concurrency 2, the least tried"},
		{"everything holds", SLO{TBT: time.Second}, 3, "holds at concurrency 8, the most that was allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
				out := r.run(Config{Contexts: []int{0}, Concurrency: []int{2, 8}, NoPrefill: true, SLO: c.slo, Duration: 4 * time.Second, MaxTokens: 2000})
				if got := notes(r, "slo_result"); len(out.Cells) != c.cells || len(got) != 1 || !strings.HasSuffix(got[0], c.says) {
					t.Errorf("%d cells, %q; want %d and %q", len(out.Cells), got, c.cells, c.says)
				}
			})
		})
	}
}

// TestSearchResumed: the cells of the first part are looked at again, not run again.
func TestSearchResumed(t *testing.T) {
	cfg := Config{Contexts: []int{0}, Concurrency: []int{1, 8}, NoPrefill: true, SLO: SLO{TBT: time.Second}, Duration: 4 * time.Second, MaxTokens: 2000}
	path := filepath.Join(t.TempDir(), "run.ndjson")
	bubble(t, profile(t, "plain"), sim.Options{}, func(r *rig) {
		out, err := r.part(path, cfg, 15*time.Second, false)
		if err != nil || out.Outcome != Stopped {
			t.Fatalf("first part: %s, %v", out.Outcome, err)
		}
		requests := len(r.srv.Truth().Requests())
		if out, err = r.part(path, cfg, 0, true); err != nil || out.Outcome != Done {
			t.Fatalf("second part: %s, %v", out.Outcome, err)
		}
		results := 0
		for _, n := range readRun(t, path).Notes {
			if n.Code == "slo_result" {
				results++
			}
		}
		if len(out.Cells) != 4 || results != 1 {
			t.Errorf("%d cells and %d results, want 1, 2, 4, 8 and one", len(out.Cells), results)
		}
		if more := len(r.srv.Truth().Requests()) - requests; more > 2+4+8+8 {
			t.Errorf("%d further requests: cells that stood were run again", more)
		}
	})
}
