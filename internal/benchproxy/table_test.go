package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twoRounds are the rows of a run in which everything is well, of two rounds.
const twoRounds = `{"name":"direct","conf":"128","round":1,"p50":100,"p99":1000,"ttft50":50}
{"name":"ours","conf":"128","round":1,"streams":128,"p50":300,"p99":1900,"ttft50":150,"cpu_tok":22,"rss0":20,"rss1":22.5,"wall":5,"other":1,"steal":0.2}
{"name":"ours-unobserved","conf":"128","round":1,"cpu_tok":21}
{"name":"nginx","conf":"128","round":1,"streams":128,"p50":200,"p99":1600,"ttft50":100,"cpu_tok":20,"rss0":5,"rss1":6.25}
{"name":"haproxy","conf":"128","round":1,"p99":2600}
{"name":"direct","conf":"128","round":2,"p50":200,"p99":1100,"ttft50":50}
{"name":"ours","conf":"128","round":2,"streams":128,"p50":500,"p99":2000,"ttft50":100,"cpu_tok":26,"rss0":22.5,"rss1":22.5,"wall":5,"other":1,"steal":0.2}
{"name":"ours-unobserved","conf":"128","round":2,"cpu_tok":23}
{"name":"nginx","conf":"128","round":2,"streams":128,"p50":300,"p99":1700,"ttft50":100,"cpu_tok":20,"rss0":6.25,"rss1":6.25}
{"name":"haproxy","conf":"128","round":2,"p99":2700}
`

const onePost = `{"name":"ours","conns":32,"round":1,"rps":15000,"cpu_req":30}
{"name":"nginx","conns":32,"round":1,"rps":10000,"cpu_req":20}
`

// tables is what is printed of the rows, and how many bars are missed.
func tables(t *testing.T, streams, posts string) (string, int) {
	t.Helper()
	dir := t.TempDir()
	s, p := filepath.Join(dir, "s"), filepath.Join(dir, "p")
	for path, text := range map[string]string{s: streams, p: posts} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	missed, err := report(&b, s, p)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), missed
}

// The delays of a round are those over direct in that round, ratios are of
// medians, and memory counts from before the first load.
func TestReport(t *testing.T) {
	got, missed := tables(t, twoRounds, onePost)
	if missed != 0 {
		t.Errorf("%d bars missed, want none", missed)
	}
	for _, want := range []string{
		"128 streams, 2 rounds; direct p99 1050 µs",
		"| ours | 250.0 (×2.50) | 900.0 (×1.50) [900, 900] | 75.0 (×1.50) | 24.0 (×1.20) | 20.0 (×2.00) | 0 | 10.0 %, 2.0 % |",
		"| nginx | 100.0 | 600.0 [600, 600] | 50.0 | 20.0 | 10.0 | 0 |",
		"short POSTs on 32 connections, 1 rounds",
		"| ours | 15000.0 (×1.50) |",
		"| ours | – | 0.250 (×2.50) / 0.900 (×1.50) |",
		"| 128 streams: observing ≤ 2 µs of CPU an event | 2.00 µs | held |",
		"| 1000w streams: CPU a token ≤ 1.25 × nginx (wish: 1.00) |  | not measured |",
		"5 bars held, 0 missed, 10 not measured",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the tables lack %q:\n%s", want, got)
		}
	}
}

func TestBarsMissed(t *testing.T) {
	for _, tc := range []struct {
		name      string
		edits     []string // old, new: in every row
		line, why string
	}{
		{"cpu", []string{`"cpu_tok":20`, `"cpu_tok":19`}, "| × 1.26 | MISSED |", "24 is over 1.25 × 19"},
		{"ttft", []string{`"ttft50":150`, `"ttft50":151`}, "| × 1.51 | MISSED |", "half a µs over"},
		{"p99", []string{`"p99":1600`, `"p99":1300`, `"p99":1700`, `"p99":1400`}, "| 900 µs beside 300, interval 900 to 900 | MISSED |", "three times nginx's, in both rounds"},
		{"p99 in the noise", []string{`"p99":1600`, `"p99":900`, `"p99":1700`, `"p99":1000`}, "| 900 µs beside 0, interval 900 to 900 | MISSED |", "nginx's is below direct's: nothing is twice that"},
		{"observing", []string{`"cpu_tok":21`, `"cpu_tok":19`}, "| 3.00 µs | MISSED |", "3 in both rounds"},
		{"peer gone", []string{`"name":"haproxy"`, `"name":"other"`}, "| 900 µs beside 0, interval 900 to 900 | MISSED |", "a peer that was not measured is no peer that was beaten"},
		{"error", []string{`"streams":128,"p50":500`, `"errs":1,"streams":128,"p50":500`}, "| × 1.20; 1 errors in these rounds | MISSED |", "one stream failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.NewReplacer(tc.edits...).Replace(twoRounds)
			if text == twoRounds {
				t.Fatalf("no row has %q", tc.edits[0])
			}
			got, missed := tables(t, text, onePost)
			if missed == 0 || !strings.Contains(got, tc.line) {
				t.Errorf("%d bars missed, want %q (%s):\n%s", missed, tc.line, tc.why, got)
			}
		})
	}
	if got, missed := tables(t, "", `{"name":"ours","conns":32,"rps":99}
{"name":"nginx","conns":32,"rps":100}
`); missed != 1 {
		t.Errorf("%d bars missed with fewer POSTs than nginx, want 1:\n%s", missed, got)
	}
}

// A p99 that varies from round to round is held to by its interval.
func TestP99Interval(t *testing.T) {
	var rows []row
	for i, v := range []float64{900, 200, 1000, 250, 950} {
		rows = append(rows, row{Name: "direct", Round: i}, row{Name: ours, Round: i, P99: v},
			row{Name: "nginx", Round: i, P99: 300}, row{Name: "haproxy", Round: i, P99: 400})
	}
	if got, ok := judgeP99(rows); !ok || got != "900 µs beside 300, interval 165 to 1155, which decides" {
		t.Errorf("got %q, %v; want it held: 660 ± 2.776 × 399 / √5 reaches 375", got, ok)
	}
}

func TestInterval(t *testing.T) {
	lo, hi, ok := interval([]float64{1, 2, 3})
	if want := 4.303 / math.Sqrt(3); !ok || math.Abs(lo-2+want) > 1e-9 || math.Abs(hi-2-want) > 1e-9 {
		t.Errorf("got %v to %v, %v; want 2 ± %v", lo, hi, ok, want)
	}
	if _, _, ok := interval([]float64{1}); ok {
		t.Error("one round has an interval")
	}
}

func TestTurn(t *testing.T) {
	targets := []target{{"a", true}, {"b", false}, {"c", true}}
	for _, tc := range []struct {
		name  string
		round int
		few   bool
		want  string
	}{
		{"the first round in the order of the list", 1, false, "a b c"},
		{"the second one begins with the second", 2, false, "b c a"},
		{"with few streams some sit out", 2, true, "c a"},
		{"it goes round", 4, false, "a b c"},
	} {
		if got := strings.Join(turn(targets, tc.round, tc.few), " "); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}
