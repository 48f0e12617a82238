package engine

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func all([]byte) bool { return true }

func TestParseExposition(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []Series
		bad      int
	}{
		{"bare", "a 1\n", []Series{{"a", nil, 1}}, 0},
		{"no newline at the end", "a 1", []Series{{"a", nil, 1}}, 0},
		{"CRLF", "a 1\r\nb 2\r\n", []Series{{"a", nil, 1}, {"b", nil, 2}}, 0},
		{"comments and blank lines", "# HELP a x\n\n  # TYPE a gauge\na 1\n", []Series{{"a", nil, 1}}, 0},
		{"labels", `a:b{x="1",y="2"} 3`, []Series{{"a:b", []Label{{"x", "1"}, {"y", "2"}}, 3}}, 0},
		{"spaces and a comma at the end", `a { x = "1" , } 3`, nil, 1}, // a name ends at its brace
		{"comma at the end", `a{ x="1", } 3`, []Series{{"a", []Label{{"x", "1"}}, 3}}, 0},
		{"no labels", `a{} 3`, []Series{{"a", nil, 3}}, 0},
		{"escapes", `a{x="\"\\\n\q}"} 3`, []Series{{"a", []Label{{"x", "\"\\\n\\q}"}}, 3}}, 0},
		{"timestamp and exemplar", `a_total 3 1395066363000 # {trace_id="x"} 0.67`, []Series{{"a_total", nil, 3}}, 0},
		{"not finite", "a NaN\nb +Inf\nc -Inf\n", []Series{{"a", nil, math.NaN()}, {"b", nil, math.Inf(1)}, {"c", nil, math.Inf(-1)}}, 0},
		{"exponent", "a 1.5e+09", []Series{{"a", nil, 1.5e9}}, 0},
		{"bad lines hide nothing", "9a 1\na\na{x=\"1} 2\na{x} 2\na{x=1} 2\na one\n{} 1\nb 1\n", []Series{{"b", nil, 1}}, 7},
		{"overflow", "a 1e999", []Series{{"a", nil, math.Inf(1)}}, 0},
		{"nothing", "", nil, 0},
	} {
		got, bad := ParseExposition([]byte(tc.in), all)
		if d := cmp.Diff(tc.want, got, cmpopts.EquateNaNs()); d != "" || bad != tc.bad {
			t.Errorf("%s: %d bad, want %d (-want +got):\n%s", tc.name, bad, tc.bad, d)
		}
	}
}

// A prefix is not a name: vllm:prompt_tokens_total_created, …_bucket and the
// like must not be added in.
func TestExactNames(t *testing.T) {
	text := captured(t, "vllm/metrics")
	got, _ := ParseExposition(text, func(n []byte) bool { return string(n) == "vllm:prompt_tokens_total" })
	want := []Series{{"vllm:prompt_tokens_total", []Label{{"engine", "0"}, {"model_name", "tiny"}}, 102}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if strings.Count(string(text), "vllm:prompt_tokens") < 10 {
		t.Error("the capture no longer has the longer names")
	}
}

// What is parsed can be written and parsed again.
func FuzzParseExposition(f *testing.F) {
	for _, engine := range []string{"vllm", "sglang", "llamacpp"} {
		raw, err := os.ReadFile("testdata/" + engine + "/metrics.http")
		if err != nil {
			f.Fatal(err)
		}
		// The lines we read: a whole page slows the fuzzer a hundredfold.
		var lines strings.Builder
		for line := range strings.Lines(string(raw)) {
			name, _, _ := strings.Cut(line, "{")
			if name, _, _ = strings.Cut(name, " "); wanted[name] {
				lines.WriteString(line)
			}
		}
		f.Add([]byte(lines.String()))
	}
	f.Add([]byte("a{x=\"\\\"\\\\\\n\\q}\",y=\"\"} NaN 1 # {z=\"1\"} 2\nb +Inf"))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, bad := ParseExposition(text, all)
		if bad < 0 || len(first)+bad > strings.Count(string(text), "\n")+1 {
			t.Fatalf("%d series and %d bad lines of %d lines", len(first), bad, strings.Count(string(text), "\n")+1)
		}
		var b strings.Builder
		escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
		for _, s := range first {
			b.WriteString(s.Name + "{")
			for _, l := range s.Labels {
				fmt.Fprintf(&b, `%s="%s",`, l.Name, escape.Replace(l.Value))
			}
			b.WriteString("} " + strconv.FormatFloat(s.Value, 'g', -1, 64) + "\n")
		}
		second, bad := ParseExposition([]byte(b.String()), all)
		if d := cmp.Diff(first, second, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); d != "" || bad != 0 {
			t.Errorf("%d bad lines after writing (-first +second):\n%s", bad, d)
		}
	})
}

func BenchmarkParseExposition(b *testing.B) {
	raw, err := os.ReadFile("testdata/sglang/metrics.http")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		ParseExposition(raw, wantedName)
	}
}
