package compare

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

func cell(context, c int, status matrix.Status, total float64, perSecond ...float64) matrix.Cell {
	out := matrix.Cell{Phase: matrix.Decode, Context: context, Concurrency: c, Status: status, PerSecond: perSecond, TokensFrom: stream.FromTokenIDs}
	if total > 0 {
		out.TotalTokS, out.CI95 = stream.Some(total), matrix.CI95(perSecond)
	}
	return out
}

func run(cells ...matrix.Cell) *matrix.Run { return &matrix.Run{Cells: cells} }

func find(t *testing.T, c *Comparison, metric string, context, concurrency int) *Row {
	t.Helper()
	for i := range c.Tables {
		for j := range c.Tables[i].Rows {
			if r := &c.Tables[i].Rows[j]; c.Tables[i].Metric == metric && r.Context == context && r.Concurrency == concurrency {
				return r
			}
		}
	}
	t.Fatalf("no %s at %d × %d", metric, context, concurrency)
	return nil
}

// TestWelchByHand pins the interval to numbers worked out by hand. One cell, so
// the floor has two variances and draws nothing.
func TestWelchByHand(t *testing.T) {
	// base 10, 12, 14: mean 12, variance 4. new 20, 21, 22: mean 21, variance 1.
	// se² = 4/3 + 1/3 = 5/3; df = (5/3)² / ((4/3)²/2 + (1/3)²/2) = 50/17.
	in := welch(side{values: []float64{10, 12, 14}}, side{values: []float64{20, 21, 22}},
		learn([]variance{{4. / 144, 2}, {1. / 441, 2}}))
	if math.Abs(in.diff-9) > 1e-9 || math.Abs(in.se-math.Sqrt(5./3)) > 1e-9 || math.Abs(in.df-50./17) > 1e-9 {
		t.Errorf("diff %v, se %v, df %v; want 9, %v, %v", in.diff, in.se, in.df, math.Sqrt(5./3), 50./17)
	}
}

func TestRepeatsInOneFileAndInSeveralAreTheSame(t *testing.T) {
	one := mustCompare(t, []*matrix.Run{run(cell(8, 1, "valid", 100), cell(8, 1, "valid", 102))}, []*matrix.Run{run(cell(8, 1, "valid", 90), cell(8, 1, "valid", 91))})
	two := mustCompare(t, []*matrix.Run{run(cell(8, 1, "valid", 100)), run(cell(8, 1, "valid", 102))}, []*matrix.Run{run(cell(8, 1, "valid", 90)), run(cell(8, 1, "valid", 91))})
	a, b := find(t, &one, "total_tok_s", 8, 1), find(t, &two, "total_tok_s", 8, 1)
	if *a != *b || a.BaseRuns != 2 || a.Basis != FromRuns {
		t.Errorf("one file gives %+v, two give %+v", a, b)
	}
}

func TestOneRunASideUsesTheWindow(t *testing.T) {
	steady := []float64{99, 101, 100, 99, 101, 100, 99, 101, 100, 100}
	slower := []float64{79, 81, 80, 79, 81, 80, 79, 81, 80, 80}
	c := mustCompare(t, []*matrix.Run{run(cell(8, 1, "valid", 100, steady...))}, []*matrix.Run{run(cell(8, 1, "valid", 80, slower...))})
	r := find(t, &c, "total_tok_s", 8, 1)
	if r.Basis != FromWindow || r.Verdict != Worse || r.Low.V > -20 || r.High.V < -20 || r.High.V-r.Low.V > 3 {
		t.Errorf("row %+v, want worse by 20 %% within the window's own spread", r)
	}
	if !strings.Contains(c.Verdict, "noise between runs is unknown") {
		t.Errorf("verdict %q does not say that the noise between runs is unknown", c.Verdict)
	}
}

// TestSalvagedCellUsesItsOwnInterval: the seconds of a salvaged cell hold the
// tokens of its loops, its ci95 does not.
func TestSalvagedCellUsesItsOwnInterval(t *testing.T) {
	wild := cell(8, 1, "valid", 100, 100, 190, 180, 100, 170, 190, 100, 100, 160, 100)
	wild.CI95 = stream.Some(1.0)
	c := mustCompare(t, []*matrix.Run{run(wild)}, []*matrix.Run{run(wild)})
	if r := find(t, &c, "total_tok_s", 8, 1); r.High.V > 1.5 || r.High.V < 1 {
		t.Errorf("interval up to %+.2f %%, want that of two cells known to ±1 %%", r.High.V)
	}
}

func TestCellsWithoutACounterpart(t *testing.T) {
	base := run(cell(8, 1, "valid", 100), cell(8, 2, "valid", 100), cell(8, 4, "looped", 0), cell(8, 8, "over_capacity", 0), cell(8, 16, "valid", 5), cell(8, 32, "looped", 400))
	fresh := run(cell(8, 1, "valid", 99), cell(8, 2, "failed", 0), cell(8, 4, "valid", 100), cell(8, 8, "over_capacity", 0), cell(8, 32, "looped", 300))
	c := mustCompare(t, []*matrix.Run{base}, []*matrix.Run{fresh})
	for _, tc := range []struct {
		concurrency int
		verdict     Verdict
		words, why  string
	}{
		{1, Unjudged, "no interval", "one run a side and no rate per second"},
		{2, Lost, "lost: failed", "it had a number and has none"},
		{4, Gained, "gained: was looped", "the other way round"},
		{8, Absent, "over_capacity", "no number on either side"},
		{16, Unmatched, "only in base", "a smaller plan is no loss"},
		{32, Absent, "looped", "provisional numbers are not compared"},
	} {
		r := find(t, &c, "total_tok_s", 8, tc.concurrency)
		if r.Verdict != tc.verdict || r.Words(&c.Tables[0]) != tc.words {
			t.Errorf("C=%d: %s, %q; want %s, %q: %s", tc.concurrency, r.Verdict, r.Words(&c.Tables[0]), tc.verdict, tc.words, tc.why)
		}
	}
	if _, err := Compare(nil, []*matrix.Run{fresh}); err == nil {
		t.Error("a comparison with nothing is no error")
	}
}

func TestDifferencesAreNamed(t *testing.T) {
	a, b := run(cell(8, 1, "valid", 100), cell(8, 2, "valid", 100)), run(cell(8, 1, "valid", 100), cell(8, 2, "valid", 100))
	a.Header.Config.OnLoop, b.Header.Config.OnLoop = "salvage", "discard"
	a.Header.Config.KVRule, b.Header.Config.KVRule = "distinct", "shared"
	a.Header.Config.Prefix, b.Header.Config.Prefix = "shared", "distinct"
	a.Header.Engine.Version, b.Header.Engine.Version = "0.31.0", ""
	a.Header.Definitions = map[string]string{"ttft": "first event", "old": "x"}
	b.Header.Definitions = map[string]string{"ttft": "first token", "new": "y"}
	b.Cells[0].TokensFrom = stream.FromUsageFinal
	c := mustCompare(t, []*matrix.Run{a}, []*matrix.Run{b})
	var got []string
	for _, w := range c.Warnings {
		got = append(got, w.Message)
	}
	for _, want := range []string{
		"on-loop: base salvage, new discard", "kv-rule: base distinct, new shared", "prefix: base shared, new distinct",
		"engine version: base 0.31.0, new unknown", "definition of ttft: base first event, new first token",
		"tokens_from: base token_ids, new usage_final (1 cells)",
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("warnings lack %q:\n%s", want, strings.Join(got, "\n"))
		}
	}
	if len(got) != 6 {
		t.Errorf("%d warnings, want 6 and none for what only one side spells out:\n%s", len(got), strings.Join(got, "\n"))
	}
	if same := mustCompare(t, []*matrix.Run{a}, []*matrix.Run{a}); len(same.Warnings) != 0 {
		t.Errorf("a run differs from itself: %+v", same.Warnings)
	}
}

func TestRules(t *testing.T) {
	rep := func(status matrix.Status, vs ...float64) []*matrix.Run {
		var out []*matrix.Run
		for _, v := range vs {
			out = append(out, run(cell(8, 1, status, v)))
		}
		return out
	}
	base := rep("valid", 100, 100.2, 99.8)
	for _, tc := range []struct {
		name, rule string
		fresh      []*matrix.Run
		broken     bool
	}{
		{"a real loss past the bound", "total_tok_s<-5%", rep("valid", 90, 90.2, 89.8), true},
		{"a real loss short of the bound", "total_tok_s < -5%", rep("valid", 97, 97.2, 96.8), false},
		{"past the bound and within noise", "total_tok_s<-5%", rep("valid", 70, 90, 110), false},
		{"a gain is no loss", "total_tok_s<-5%", rep("valid", 110, 110.2, 109.8), false},
		{"a rise", "total_tok_s>5%", rep("valid", 110, 110.2, 109.8), true},
		{"no interval: the change decides", "total_tok_s<-5%", nil, true},
		{"lost", "lost", rep("looped", 0), true},
		{"not lost", "lost", rep("valid", 50), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := ParseRule(tc.rule)
			if err != nil {
				t.Fatal(err)
			}
			from, to := base, tc.fresh
			if to == nil {
				from, to = rep("valid", 100), rep("valid", 90)
			}
			c := mustCompare(t, from, to)
			if got := r.Broken(&c); (len(got) > 0) != tc.broken {
				t.Errorf("broken by %q, want broken: %v", got, tc.broken)
			}
		})
	}
	for _, bad := range []string{"", "total_tok_s", "total<-5%", "total_tok_s<-5", "total_tok_s<x%", "<-5%"} {
		if _, err := ParseRule(bad); err == nil {
			t.Errorf("rule %q is accepted", bad)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"total_tok_s<-5%", "ttft_ms > 10 %", "lost", "tbt_ms<1e3%", "<", "total_tok_s<NaN%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRule(s)
		if err == nil && r.Metric != "lost" && (math.IsNaN(r.Bound) || math.IsInf(r.Bound, 0)) {
			t.Errorf("rule %q has the bound %v, which no change is beyond", s, r.Bound)
		}
	})
}

// The order of the rows is not that in which somebody ran the cells, and each
// side says which runs it is made of.
func TestRowsInOrderAndOrigins(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	noted := func(note string, places ...[2]int) *matrix.Run {
		r := &matrix.Run{Header: matrix.Header{Start: start, Notes: map[string]string{"launch": note}}}
		for _, at := range places {
			r.Cells = append(r.Cells, matrix.Cell{Phase: matrix.Decode, Context: at[0], Concurrency: at[1], Status: matrix.Valid, TotalTokS: stream.Some(100.)})
		}
		return r
	}
	c, err := Compare(
		[]*matrix.Run{noted("serve --api-key hunter2", [2]int{8192, 4}, [2]int{1024, 8})},
		[]*matrix.Run{noted("serve", [2]int{8192, 1}, [2]int{1024, 8}, [2]int{1024, 2})})
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]int
	for _, r := range c.Tables[0].Rows {
		got = append(got, [2]int{r.Context, r.Concurrency})
	}
	if want := [][2]int{{1024, 2}, {1024, 8}, {8192, 1}, {8192, 4}}; !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	if o := c.Base.Origins; len(o) != 1 || !o[0].Start.Equal(start) || o[0].Notes["launch"] != "serve --api-key "+stream.Redacted {
		t.Errorf("base is %+v, want its start and its launch command without the key", o)
	}
}
