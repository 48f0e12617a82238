package sim

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promFamily is a metric of a Prometheus page: its type and its label names.
type promFamily struct {
	kind   string
	labels []string
	values map[string]string // by label text
}

var labelName = regexp.MustCompile(`([a-zA-Z_]+)="`)

func promFamilies(text string) map[string]promFamily {
	out := map[string]promFamily{}
	for sc := bufio.NewScanner(strings.NewReader(text)); sc.Scan(); {
		line := sc.Text()
		if f := strings.Fields(line); strings.HasPrefix(line, "# TYPE ") {
			out[f[2]] = promFamily{kind: f[3], values: map[string]string{}}
			continue
		} else if strings.HasPrefix(line, "#") || len(f) < 2 {
			continue
		}
		name, rest, _ := strings.Cut(line, "{")
		labels, value, ok := strings.Cut(rest, "} ")
		if !ok {
			name, value, _ = strings.Cut(line, " ")
		}
		f := out[name]
		f.labels = nil
		for _, m := range labelName.FindAllStringSubmatch(labels, -1) {
			f.labels = append(f.labels, m[1])
		}
		f.values[labels] = value
		out[name] = f
	}
	return out
}

func TestMetricsAreNamedAsCaptured(t *testing.T) {
	for _, d := range []Dialect{VLLM, SGLang, LlamaCPP} {
		p := plain()
		p.Dialect = d
		b, err := os.ReadFile("testdata/" + string(d) + "/metrics.prom")
		if err != nil {
			t.Fatal(err)
		}
		engine := promFamilies(string(b))
		inBubble(t, p, Options{}, func(b *bench) {
			ours := promFamilies(b.do("GET", "/metrics", "", nil).body)
			for name, f := range ours {
				e, ok := engine[name]
				if !ok {
					// The engine has it only with speculation, or after a retraction.
					if !strings.Contains(name, "spec_decode") && name != "sglang:num_retracted_requests_total" && name != "sglang:num_aborted_requests_total" {
						t.Errorf("%s: not a metric of the engine", name)
					}
					continue
				}
				if f.kind != e.kind {
					t.Errorf("%s: type %s, want %s", name, f.kind, e.kind)
				}
				for _, l := range f.labels {
					if !slices.Contains(e.labels, l) {
						t.Errorf("%s: label %q, the engine has %v", name, l, e.labels)
					}
				}
			}
		})
	}
}

func TestMetricsCount(t *testing.T) {
	p := plain()
	p.Chunks = []int{3, 1, 5, 2, 4}
	inBubble(t, p, Options{}, func(b *bench) {
		for range 2 {
			b.do("POST", "/v1/chat/completions", chatBody(p, 1000, 31, "s", ""), nil)
		}
		got := promFamilies(b.do("GET", "/metrics", "", nil).body)
		for name, want := range map[string]int{
			"vllm:num_requests_running":                  0,
			"vllm:prompt_tokens_total":                   2000,
			"vllm:prefix_cache_hits_total":               992,
			"vllm:generation_tokens_total":               62,
			"vllm:spec_decode_num_drafts_total":          22, // 1 token, then 30 in 10 chunks of 3 in the mean, twice
			"vllm:spec_decode_num_draft_tokens_total":    88,
			"vllm:spec_decode_num_accepted_tokens_total": 40,
		} {
			for labels, v := range got[name].values {
				if v != fmt.Sprint(want) {
					t.Errorf("%s{%s} = %s, want %d", name, labels, v, want)
				}
			}
			if len(got[name].values) != 1 {
				t.Errorf("%s has %d samples, want 1", name, len(got[name].values))
			}
		}
		info := ""
		for labels := range got["vllm:cache_config_info"].values {
			info = labels
		}
		if !strings.Contains(info, `kv_cache_size_tokens="262144"`) || !strings.Contains(info, `num_gpu_blocks="16384"`) {
			t.Errorf("cache_config_info{%s}", info)
		}
	})
}
