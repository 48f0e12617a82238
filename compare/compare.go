package compare

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// Basis says where the uncertainty of a difference comes from.
type Basis string

const (
	FromRuns   Basis = "runs"   // the spread between repeats
	FromWindow Basis = "window" // batch means inside one window: noise between runs unknown
	FromNone   Basis = "none"   // one run a side and no rate per second: unknown altogether
)

// Verdict is the judgement on one metric of one cell.
type Verdict string

const (
	Better      Verdict = "better"
	Worse       Verdict = "worse"
	WithinNoise Verdict = "within_noise"
	Unjudged    Verdict = "unjudged"  // numbers on both sides and no interval
	Lost        Verdict = "lost"      // a number in base, none in new
	Gained      Verdict = "gained"    // a number in new, none in base
	Unmatched   Verdict = "unmatched" // not run on one side
	Absent      Verdict = "absent"    // a number on neither side
)

// alpha is the chance of a comparison to show any difference that is not there.
const alpha = 0.05

// Comparison is the whole result; rows are in the order of context, then
// concurrency.
type Comparison struct {
	Base     Side             `json:"base"`
	New      Side             `json:"new"`
	Verdict  string           `json:"verdict"` // a sentence for each metric
	Warnings []matrix.Warning `json:"warnings"`
	Tables   []Table          `json:"tables"`
}

// Side is one set of runs.
type Side struct {
	Title string `json:"title"` // model, engine and version
	Runs  int    `json:"runs"`  // most repeats that a cell has, over all files
	Files int    `json:"files"`

	Origins []Origin `json:"origins"` // of each run, in the order given
}

// Origin tells the runs of a side apart. File is for the caller to fill in.
type Origin struct {
	File  string            `json:"file,omitempty"`
	Start time.Time         `json:"start,omitzero"`  // zero: the file does not tell
	Notes map[string]string `json:"notes,omitempty"` // without secrets
}

// Table is one metric over all cells.
type Table struct {
	Metric     string               `json:"metric"`
	Title      string               `json:"title"`
	Phase      matrix.CellPhase     `json:"phase"`
	MoreBetter bool                 `json:"more_is_better"`
	NoisePct   stream.Null[float64] `json:"noise_floor_pct"` // standard deviation between runs
	LeastPct   stream.Null[float64] `json:"least_pct"`       // median over cells of the smallest change that would be told from noise
	Verdict    string               `json:"verdict"`
	Rows       []Row                `json:"rows"`
}

// Row is one cell of a table. Low and High are the 95 % interval of Change by
// itself; Adjusted is the p value after Holm over all rows of all tables, and
// what Verdict rests on.
type Row struct {
	Context     int                  `json:"context"`
	Concurrency int                  `json:"concurrency"`
	Base        stream.Null[float64] `json:"base"` // mean of the valid runs
	New         stream.Null[float64] `json:"new"`
	BaseRuns    int                  `json:"base_runs"` // valid ones
	NewRuns     int                  `json:"new_runs"`
	BaseStatus  string               `json:"base_status"` // "valid", else the statuses: "looped", "not run"
	NewStatus   string               `json:"new_status"`
	Change      stream.Null[float64] `json:"change_pct"` // of the base
	Low         stream.Null[float64] `json:"low_pct"`
	High        stream.Null[float64] `json:"high_pct"`
	P           stream.Null[float64] `json:"p"`
	Adjusted    stream.Null[float64] `json:"p_adjusted"`
	Basis       Basis                `json:"basis"`
	Verdict     Verdict              `json:"verdict"`

	se, df float64 // of the change, percent
}

// Compare compares two sets of runs; both must hold at least one.
func Compare(base, fresh []*matrix.Run) (Comparison, error) {
	if len(base) == 0 || len(fresh) == 0 {
		return Comparison{}, fmt.Errorf("a comparison needs runs on both sides, base has %d and new %d", len(base), len(fresh))
	}
	b, n := gather(base), gather(fresh)
	c := Comparison{Base: describe(base, b), New: describe(fresh, n), Warnings: differences(base, fresh, b, n), Tables: []Table{}}
	for i := range metrics {
		if t, ok := metrics[i].table(b, n); ok {
			c.Tables = append(c.Tables, t)
		}
	}
	c.adjust()
	for i := range c.Tables {
		c.Tables[i].judge()
	}
	c.summarise()
	return c, nil
}

func describe(runs []*matrix.Run, g gathered) Side {
	e := runs[0].Header.Engine
	s := Side{Title: fmt.Sprintf("%s on %s %s", cmp.Or(e.Model, "unknown model"), e.Kind, e.Version), Files: len(runs)}
	for _, cells := range g.cells {
		s.Runs = max(s.Runs, len(cells))
	}
	for _, run := range runs {
		s.Origins = append(s.Origins, Origin{Start: run.Header.Start, Notes: stream.RedactNotes(run.Header.Notes)})
	}
	return s
}

// table lays one metric of both sides out and computes its intervals.
func (m *metric) table(base, fresh gathered) (Table, bool) {
	t := Table{Metric: m.name, Title: m.title, Phase: m.phase, MoreBetter: m.better > 0, Rows: []Row{}}
	var sides [][2]side
	var spreads []variance
	for _, at := range union(base.order, fresh.order) {
		if at.phase != m.phase {
			continue
		}
		a, b := m.observe(base.cells[at]), m.observe(fresh.cells[at])
		sides = append(sides, [2]side{a, b})
		t.Rows = append(t.Rows, row(at, base.cells[at], fresh.cells[at], a, b))
		for _, s := range []side{a, b} {
			if v := s.spread(); v.df > 0 {
				spreads = append(spreads, v)
			}
		}
	}
	if !slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Base.OK || r.New.OK }) {
		return t, false
	}
	f := learn(spreads)
	if f.n > 0 {
		t.NoisePct = stream.Some(100 * f.sd())
	}
	for i := range t.Rows {
		t.Rows[i].measure(sides[i][0], sides[i][1], f)
	}
	return t, true
}

// union is the places of both sides, by context and then concurrency: the order
// in which one of them happened to be run says nothing about a comparison.
func union(a, b []place) []place {
	out := slices.Clone(a)
	for _, at := range b {
		if !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	slices.SortStableFunc(out, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.context, b.context), cmp.Compare(a.concurrency, b.concurrency))
	})
	return out
}

func row(at place, base, fresh []*matrix.Cell, a, b side) Row {
	r := Row{
		Context: at.context, Concurrency: at.concurrency, BaseRuns: len(a.values), NewRuns: len(b.values),
		BaseStatus: statuses(base), NewStatus: statuses(fresh), Basis: FromNone,
	}
	if r.BaseRuns > 0 {
		r.Base = stream.Some(a.mean())
	}
	if r.NewRuns > 0 {
		r.New = stream.Some(b.mean())
	}
	return r
}

// notRun stands where a side has no cell of a place.
const notRun = "not run"

// statuses names the statuses of a place's repeats, each once, in their order.
func statuses(cells []*matrix.Cell) string {
	if len(cells) == 0 {
		return notRun
	}
	var out string
	var seen []matrix.Status
	for _, c := range cells {
		if !slices.Contains(seen, c.Status) {
			seen = append(seen, c.Status)
			if out != "" {
				out += ", "
			}
			out += string(c.Status)
		}
	}
	return out
}

// measure computes the change and its interval, from the best basis there is.
func (r *Row) measure(a, b side, f floor) {
	if !r.Base.OK || !r.New.OK {
		return
	}
	r.Change = stream.Some(100 * (r.New.V - r.Base.V) / r.Base.V)
	var in interval
	switch {
	case (r.BaseRuns > 1 || r.NewRuns > 1) || f.df > 0:
		r.Basis, in = FromRuns, welch(a, b, f)
	case a.window.df > 0 && b.window.df > 0:
		r.Basis, in = FromWindow, within(a, b)
	default:
		return
	}
	pct := 100 / r.Base.V
	r.Low, r.High = stream.Some(pct*(in.diff-in.half)), stream.Some(pct*(in.diff+in.half))
	r.P = stream.Some(in.p)
	r.se = pct * in.se
	r.df = in.df
}
