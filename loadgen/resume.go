package loadgen

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
)

// resume goes on with the run of Deps.Resume instead of writing a header: its
// cells with a final status are not run again. It is an error when anything that
// gives the numbers their meaning differs.
func (r *runner) resume(now time.Time) error {
	old := r.deps.Resume
	if d := differences(&old.Header, &r.out.Header); len(d) > 0 {
		r.out = Outcome{}
		return fmt.Errorf("this run cannot go on in that file: %s", strings.Join(d, "; "))
	}
	url, kv := r.out.Header.Config.URL, r.out.Header.Engine.KVTokens
	r.out.Header, r.out.Cells, r.records = old.Header, slices.Clone(old.Cells), len(old.Records)
	r.start = stamp.FromTime(now).Add(-sinceHeader(old, now))
	for i := range old.Cells {
		r.noteFull(&old.Cells[i])
	}
	// The ids of the first part may still be in the proxy's ring.
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", r.runID, now.UnixNano())
	r.runID = fmt.Sprintf("sg-%08x", uint32(h.Sum64()))

	left := 0
	for _, s := range r.plan.Steps {
		if !r.measured(s) {
			left++
		}
	}
	text := fmt.Sprintf("resumed at %s with %s: %s; %d of %d steps were left",
		now.UTC().Format(time.RFC3339), r.cfg.Tool, howEnded(old.End), left, len(r.plan.Steps))
	if was := old.Header.Config.URL; was != url {
		text += fmt.Sprintf("; the server is now at %s", url)
	}
	if was := old.Header.Engine.KVTokens; was != kv {
		text += fmt.Sprintf("; its KV capacity was %d tokens and is %d", was, kv)
	}
	return r.note("resumed", text)
}

func howEnded(f *matrix.Footer) string {
	if f == nil {
		return "it had been cut off"
	}
	return fmt.Sprintf("it had ended as %s at %s", f.Outcome, f.End.UTC().Format(time.RFC3339))
}

// measured reports whether the run that is resumed has the cells of a step.
func (r *runner) measured(s Step) bool {
	return r.deps.Resume != nil && s.Have(r.deps.Resume.Cells) != nil
}

// sinceHeader is the time from the header line of a run to now. The first part's
// process is gone, and with a reboot its monotonic clock, so the wall clock tells;
// where that was set back, what follows still lies behind what is there.
func sinceHeader(run *matrix.Run, now time.Time) time.Duration {
	last := now.Round(0).Sub(run.Header.Start)
	for i := range run.Records {
		if rec := &run.Records[i]; rec.SentNS.OK {
			last = max(last, time.Duration(rec.SentNS.V+max(rec.EndNS.V, 0)))
		}
	}
	for i := range run.Cells {
		if c := &run.Cells[i]; c.OpenNS.OK {
			last = max(last, time.Duration(c.OpenNS.V+int64(c.MeasuredS.V*1e9)))
		}
	}
	for i := range run.Notes {
		last = max(last, time.Duration(run.Notes[i].AtNS))
	}
	return last
}

// differences lists what keeps a run from going on in the file of another: each
// as "name: what the file has, what this run has". Where the server is, and which
// cells are asked for, may differ.
func differences(was, is *matrix.Header) []string {
	var out []string
	diff := func(name string, was, is any) bool {
		a, b := word(was), word(is)
		if a != b {
			out = append(out, fmt.Sprintf("%s: the file has %s, this run %s", name, a, b))
		}
		return a != b
	}
	e, f := &was.Engine, &is.Engine
	diff("engine", strings.TrimSpace(e.Kind+" "+e.Version), strings.TrimSpace(f.Kind+" "+f.Version))
	diff("model", e.Model, f.Model)
	diff("model limit", e.MaxModelLen, f.MaxModelLen)
	diff("running sequences", e.MaxRunning, f.MaxRunning)
	if e.Sources["kv_tokens"] != f.Sources["kv_tokens"] || f.Sources["kv_tokens"] == kvByHand {
		diff("kv-tokens", e.KVTokens, f.KVTokens)
	}
	c, d := &was.Config, &is.Config
	if p, q := c.Paced, d.Paced; p != nil && q != nil {
		diff("arrival", p.Arrival, q.Arrival)
		diff("max-open", p.MaxOpen, q.MaxOpen)
	}
	asked := false
	for _, s := range []struct {
		name    string
		was, is any
		request bool // also a key of each request
	}{
		{"endpoint", c.Endpoint, d.Endpoint, true},
		{"duration", seconds(c.DurationS), seconds(d.DurationS), false},
		{"settle", seconds(c.SettleS), seconds(d.SettleS), false},
		{"max-tokens", c.MaxTokens, d.MaxTokens, true},
		{"force-length", c.ForceLength, d.ForceLength, true},
		{"on-loop", c.OnLoop, d.OnLoop, false},
		{"prefix", c.Prefix, d.Prefix, false},
		{"kv-rule", c.KVRule, d.KVRule, false},
		{"max-failed", c.MaxFailed, d.MaxFailed, false},
		{"seed", c.Seed, d.Seed, false},
		{"salt", c.Salt != "", d.Salt != "", false},
		{"ask", c.Ask, d.Ask, false},
		{"temperature", c.Temperature, d.Temperature, true},
		{"top-p", c.TopP, d.TopP, true},
		{"thinking", c.Thinking, d.Thinking, true},
		{"reasoning-effort", c.ReasoningEffort, d.ReasoningEffort, true},
		{"extra-body", c.Extra, d.Extra, true},
		{"switches sent", e.Sent, f.Sent, true},
		{"measured through our proxy", was.Proxy != "", is.Proxy != "", false},
	} {
		if diff(s.name, s.was, s.is) && s.request {
			asked = true
		}
	}
	if c.RequestSHA256 != d.RequestSHA256 && !asked && e.Model == f.Model {
		out = append(out, "extra-body: its values are not those of the file's requests")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Detect)) {
		diff("detector's "+name, c.Detect[name], d.Detect[name])
	}
	for _, name := range slices.Sorted(maps.Keys(is.Definitions)) {
		if was.Definitions[name] != is.Definitions[name] {
			out = append(out, fmt.Sprintf("definition of %s: %s measured by another rule", name, was.Tool))
		}
	}
	return out
}

type seconds float64

// word writes a setting for people; a nil pointer is a setting that was not sent.
func word(v any) string {
	switch v := v.(type) {
	case seconds:
		return fmt.Sprintf("%g s", float64(v))
	case *float64:
		if v == nil {
			return "none"
		}
		return fmt.Sprint(*v)
	case *bool:
		if v == nil {
			return "none"
		}
		return fmt.Sprint(*v)
	case []string:
		if len(v) == 0 {
			return "none"
		}
		return strings.Join(v, " ")
	case string:
		if v == "" {
			return "none"
		}
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

// kvByHand is the source of a KV capacity that the user gave.
const kvByHand = "--kv-tokens"
