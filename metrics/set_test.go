package metrics

import (
	"bytes"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// filled is a set in which every family has a series, and labels hold every
// byte that needs care.
func filled(t *testing.T) *Set {
	t.Helper()
	s := New("v1.2.3")
	odd := "org/mo\"del\\7b\n{x=\"y\"},é\xff"
	s.SetModels([]string{"plain", odd})
	for _, name := range []string{"plain", odd, "not served"} {
		m := s.Model([]byte(name))
		m.TTFT.Update(0.2)
		m.TTFTClient.Update(0.21)
		m.TTFE.Update(0.19)
		m.EventGap.Update(0.01)
		m.InterToken.ObserveN(0.005, 2)
		m.Rate.Update(200)
		m.PromptTokens.Add(7)
		m.CachedTokens.Add(3)
		m.Tokens(wire.Content).Add(5)
		m.Tokens(wire.Tool0 + 4).Add(1)
		s.StreamsActive(m, "h:1").Inc()
		s.NoFirstToken(m, "connect")
		s.Loop(m, "confirmed", "tool:3", "observe")
	}
	s.Request("chat", "h:1", 200, "completed", time.Second)
	s.AddedDelay.Update(30e-6)
	s.Blind("encoded")
	s.ClientGone("prefill")
	s.UpstreamRetry("stale")
	s.UpstreamConnections("h:1", "idle", func() float64 { return 2 })
	s.UpstreamUp("h:1", func() float64 { return 1 })
	return s
}

func text(s *Set) string {
	var b bytes.Buffer
	s.WritePrometheus(&b)
	return b.String()
}

// The contract's names (docs/contract, section 3), each with its labels.
var contract = map[string]string{
	"streamgauge_requests_total":            "route,upstream,code,end",
	"streamgauge_request_duration_seconds":  "route,upstream",
	"streamgauge_streams_active":            "model,upstream",
	"streamgauge_tokens_total":              "model,channel",
	"streamgauge_prompt_tokens_total":       "model",
	"streamgauge_cached_tokens_total":       "model",
	"streamgauge_ttft_seconds":              "model",
	"streamgauge_ttft_client_seconds":       "model",
	"streamgauge_ttfe_seconds":              "model",
	"streamgauge_inter_token_seconds":       "model",
	"streamgauge_event_gap_seconds":         "model",
	"streamgauge_request_tokens_per_second": "model",
	"streamgauge_no_first_token_total":      "model,reason",
	"streamgauge_loops_total":               "model,verdict,channel,action",
	"streamgauge_added_delay_seconds":       "",
	"streamgauge_coalesced_events_total":    "",
	"streamgauge_estimated_streams_total":   "",
	"streamgauge_blind_streams_total":       "reason",
	"streamgauge_upstream_connections":      "upstream,state",
	"streamgauge_upstream_retries_total":    "reason",
	"streamgauge_client_gone_total":         "phase",
	"streamgauge_records_dropped_total":     "",
	"streamgauge_panics_total":              "",
	"streamgauge_build_info":                "version,go",
}

func TestTableHoldsTheContract(t *testing.T) {
	got := map[string]string{}
	for _, f := range families {
		got[f.name] = strings.Join(f.labels, ",")
	}
	for name, labels := range contract {
		if l, ok := got[name]; !ok || l != labels {
			t.Errorf("%s: in the table %v with labels %q, want labels %q", name, ok, l, labels)
		}
	}
}

var (
	metricName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	sample     = regexp.MustCompile(`^([a-z][a-z0-9_]*)(\{(.*)\})? (\S+)$`)
	label      = regexp.MustCompile(`^([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(,|$)`)
)

// lint is what the text format and promtool ask for: HELP and TYPE once and
// first, series of a family together, no series twice, counters named _total,
// cumulative buckets that end in +Inf and agree with _count.
func lint(out string) (problems []string) {
	bad := func(line, why string) { problems = append(problems, why+": "+line) }
	var fam, typ string
	seenFam, seenSeries := map[string]bool{}, map[string]bool{}
	lastBucket, infBucket := map[string]float64{}, map[string]string{}
	var helped string
	if !strings.HasSuffix(out, "\n") {
		bad("end", "no line feed at the end")
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# HELP "):
			name, help, _ := strings.Cut(strings.TrimPrefix(line, "# HELP "), " ")
			if strings.TrimSpace(help) == "" {
				bad(line, "no help text")
			}
			if seenFam[name] {
				bad(line, "family not together")
			}
			seenFam[name], helped = true, name
		case strings.HasPrefix(line, "# TYPE "):
			f := strings.Fields(line)
			if len(f) != 4 || f[2] != helped {
				bad(line, "TYPE does not follow its HELP")
				continue
			}
			fam, typ = f[2], f[3]
			if !metricName.MatchString(fam) {
				bad(line, "bad name")
			}
			if (typ == "counter") != strings.HasSuffix(fam, "_total") {
				bad(line, "counters, and only they, end in _total")
			}
		default:
			m := sample.FindStringSubmatch(line)
			if m == nil {
				bad(line, "not a sample")
				continue
			}
			name, labels, value := m[1], m[3], m[4]
			suffix := strings.TrimPrefix(name, fam)
			if !strings.HasPrefix(name, fam) || (typ != "histogram" && suffix != "") ||
				(typ == "histogram" && suffix != "_bucket" && suffix != "_sum" && suffix != "_count") {
				bad(line, "not a series of "+fam)
			}
			if seenSeries[name+labels] {
				bad(line, "series twice")
			}
			seenSeries[name+labels] = true
			var le, rest string
			for l := labels; l != ""; {
				p := label.FindStringSubmatch(l)
				if p == nil {
					bad(line, "bad labels")
					break
				}
				if p[1] == "le" {
					le = p[2]
				} else {
					rest += p[0]
				}
				l = l[len(p[0]):]
			}
			rest = strings.TrimSuffix(rest, ",")
			switch suffix {
			case "_bucket":
				v := number(value)
				if !(v >= lastBucket[fam+rest]) {
					bad(line, "buckets not cumulative")
				}
				lastBucket[fam+rest] = v
				if le == "+Inf" {
					infBucket[fam+rest] = value
				}
			case "_count":
				if infBucket[fam+rest] != value {
					bad(line, "count is not the +Inf bucket")
				}
			}
		}
	}
	return problems
}

// number is NaN for what is none, and NaN is never in order.
func number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func TestTextFormat(t *testing.T) {
	out := text(filled(t))
	for _, p := range lint(out) {
		t.Error(p)
	}
	for _, f := range families {
		if !strings.Contains(out, "# TYPE "+f.name+" "+string(f.kind)+"\n") {
			t.Errorf("%s is not written", f.name)
		}
	}
}

// The lint has to find what it is for.
func TestLintFinds(t *testing.T) {
	head := "# HELP a_total x\n# TYPE a_total counter\n"
	for _, c := range []struct{ name, in, want string }{
		{"no help text", "# HELP a_total \n# TYPE a_total counter\na_total 1\n", "no help"},
		{"no TYPE", "# HELP a_total x\na_total 1\n", "not a series"},
		{"counter without _total", "# HELP a x\n# TYPE a counter\na 1\n", "_total"},
		{"twice", head + "a_total 1\na_total 1\n", "twice"},
		{"apart", head + "a_total 1\n" + head, "together"},
		{"label not escaped", head + "a_total{m=\"x\"y\"} 1\n", "bad labels"},
		{"buckets fall", "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n", "cumulative"},
		{"count differs", "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n", "+Inf"},
	} {
		if got := strings.Join(lint(c.in), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want a problem with %q", c.name, got, c.want)
		}
	}
}

func TestPromtool(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool (Debian: prometheus) is not installed; TestTextFormat checks the same rules")
	}
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text(filled(t)))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func TestModelLabelIsBounded(t *testing.T) {
	s := New("v")
	s.SetModels([]string{"served", "", strings.Repeat("x", maxModelName+1)})
	for _, c := range []struct{ name, in, want string }{
		{"served", "served", "served"},
		{"unknown", "gpt-4; DROP TABLE", Other},
		{"none given", "", Other},
		{"served, but too long for a label", strings.Repeat("x", maxModelName+1), Other},
	} {
		if got := s.Model([]byte(c.in)).Name; got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if a, b := s.Model([]byte("served")), s.Model([]byte("served")); a != b {
		t.Error("a model's series were made twice")
	}
	s.SetModels([]string{"next"})
	if got := s.Model([]byte("served")).Name; got != Other {
		t.Errorf("a model that is no longer served: got %q, want %q", got, Other)
	}
}

func TestRoute(t *testing.T) {
	for _, c := range []struct{ target, want string }{
		{"/v1/chat/completions", "chat"},
		{"/v1/chat/completions?key=sk-1", "chat"},
		{"/chat/completions", "chat"},
		{"/v1/completions", "completions"},
		{"//v1//completions", "completions"},
		{"/v1/models", "models"},
		{"/v1/models/abc", Other},
		{"/?x=/v1/completions", Other},
		{"", Other},
	} {
		if got := Route([]byte(c.target)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.target, got, c.want)
		}
	}
}

func TestLabelsAreBounded(t *testing.T) {
	s := New("v")
	m := s.Model(nil)
	s.NoFirstToken(m, "boom from the prompt")
	s.Blind("boom from the prompt")
	s.Loop(m, "boom from the prompt", "boom from the prompt", "observe")
	s.Request("chat", "h:1", 200, "boom from the prompt", time.Second)
	if out := text(s); strings.Contains(out, "boom") {
		t.Errorf("free text became a label value:\n%s", out)
	}
}

func TestWeighted(t *testing.T) {
	w := newWeighted([]float64{1, 2})
	w.ObserveN(0.5, 3)
	w.ObserveN(2, 2) // a bound belongs to its bucket
	w.ObserveN(9, 1_000_000_000)
	w.ObserveN(1, 0)
	w.ObserveN(-1, 5)
	w.ObserveN(math.NaN(), 5)
	var b bytes.Buffer
	w.write(&b, "h", `m="x",`)
	want := `h_bucket{m="x",le="1"} 3
h_bucket{m="x",le="2"} 5
h_bucket{m="x",le="+Inf"} 1000000005
h_sum{m="x"} 9.0000000055e+09
h_count{m="x"} 1000000005
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What the token path calls must not allocate.
func TestTokenPathDoesNotAllocate(t *testing.T) {
	s := New("v")
	m := s.Model([]byte("x"))
	got := testing.AllocsPerRun(1000, func() {
		s.AddedDelay.Update(20e-6)
		m.EventGap.Update(0.01)
		m.InterToken.ObserveN(0.01, 1)
		m.Tokens(wire.Content).Add(1)
	})
	if got != 0 {
		t.Errorf("got %v allocations a token, want 0", got)
	}
}

func BenchmarkToken(b *testing.B) {
	s := New("v")
	m := s.Model([]byte("x"))
	for b.Loop() {
		s.AddedDelay.Update(20e-6)
		m.EventGap.Update(0.01)
		m.InterToken.ObserveN(0.01, 1)
		m.Tokens(wire.Content).Add(1)
	}
}

// TestStampsRefused: each reason has a series from the start, so that a rate over it
// is 0 and not nothing; a scrape reads the counts as they are then.
func TestStampsRefused(t *testing.T) {
	s := New("v1.2.3")
	for _, reason := range []string{"missing", "late", "early", "step"} {
		if line := `streamgauge_stamps_refused_total{reason="` + reason + `"} `; !strings.Contains(text(s), line) {
			t.Errorf("no series %s", line)
		}
	}
	s.fams[stampsRefused] = vm.NewSet()
	var now stamp.Refusals
	s.stampsRefused(func() stamp.Refusals { return now })
	now = stamp.Refusals{Missing: 1, Late: 2, Early: 3, Step: 4_000_000}
	const want = `# HELP streamgauge_stamps_refused_total Reads whose kernel stamp was not used, but the instant after the read, by reason.
# TYPE streamgauge_stamps_refused_total counter
streamgauge_stamps_refused_total{reason="early"} 3
streamgauge_stamps_refused_total{reason="late"} 2
streamgauge_stamps_refused_total{reason="missing"} 1
streamgauge_stamps_refused_total{reason="step"} 4000000
`
	if got := text(s); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
}
