package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Rule is a condition that makes a comparison fail: a metric that changed past a
// bound in some cell, or a cell that lost its number.
type Rule struct {
	Metric string  // one of Metrics; "lost"
	Below  bool    // '<': the change is below Bound; else above
	Bound  float64 // percent of the base
	text   string
}

// ParseRule reads "total_tok_s<-5%", "ttft_ms>10%" or "lost".
func ParseRule(text string) (Rule, error) {
	s := strings.ReplaceAll(text, " ", "")
	if s == "lost" {
		return Rule{Metric: s, text: text}, nil
	}
	i := strings.IndexAny(s, "<>")
	if i < 0 {
		return Rule{}, fmt.Errorf(`rule %q: want METRIC<-N%% or METRIC>N%%, or lost`, text)
	}
	r := Rule{Metric: s[:i], Below: s[i] == '<', text: text}
	if !slices.Contains(Metrics(), r.Metric) {
		return Rule{}, fmt.Errorf("rule %q: no metric %q: there are %s", text, r.Metric, strings.Join(Metrics(), ", "))
	}
	number, ok := strings.CutSuffix(s[i+1:], "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return Rule{}, fmt.Errorf("rule %q: %q is no percentage such as -5%%", text, s[i+1:])
	}
	r.Bound = v
	return r, nil
}

func (r Rule) String() string { return r.text }

// Broken lists the cells that meet the rule, a sentence each. A change counts
// when it is past the bound and told from noise; where there is no interval to
// tell by, the change alone decides, so that a script does not pass by not
// knowing.
func (r Rule) Broken(c *Comparison) []string {
	var out []string
	for i := range c.Tables {
		t := &c.Tables[i]
		for j := range t.Rows {
			if row := &t.Rows[j]; r.met(t, row) {
				out = append(out, fmt.Sprintf("%s at context %d, concurrency %d: %s", t.Metric, row.Context, row.Concurrency, r.why(t, row)))
			}
		}
	}
	return out
}

func (r Rule) met(t *Table, row *Row) bool {
	if r.Metric == "lost" {
		// Every metric of a lost cell is lost; the first tables tell it once.
		return row.Verdict == Lost && (t.Metric == "total_tok_s" || t.Metric == "prefill_tok_s")
	}
	if t.Metric != r.Metric || !row.Change.OK || row.Verdict == WithinNoise {
		return false
	}
	if r.Below {
		return row.Change.V < r.Bound
	}
	return row.Change.V > r.Bound
}

func (r Rule) why(t *Table, row *Row) string {
	switch row.Verdict {
	case Lost:
		return row.Words(t)
	case Unjudged:
		return fmt.Sprintf("%+.1f %%, with no interval to tell it from noise", row.Change.V)
	}
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", row.Change.V, row.Low.V, row.High.V)
}
