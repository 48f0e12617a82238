package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/engine"
)

// The switches were one cell of JSON, which padded every row to its width.
func TestProbePrintsNarrowRows(t *testing.T) {
	info := engine.Info{Facts: []engine.Fact{{Name: "model", Value: "m", Source: "/v1/models"}}}
	sw := engine.Defaults(engine.VLLM, true)
	for _, tc := range []struct {
		name    string
		dropped []string
		want    string
	}{
		{"all taken", nil, ""},
		{"one refused", []string{"rid"}, "refused  rid "},
	} {
		var out bytes.Buffer
		sw.Dropped = tc.dropped
		if err := printFacts(streams{out: &out}, info, sw); err != nil {
			t.Fatal(err)
		}
		if want := "max_tokens return_token_ids continuous_usage_stats stream_options min_tokens ignore_eos"; !strings.Contains(out.String(), want) {
			t.Errorf("%s: the row of what is sent lacks %q:\n%s", tc.name, want, out.String())
		}
		if got := strings.Contains(out.String(), "refused"); got != (tc.want != "") || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: want %q:\n%s", tc.name, tc.want, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 140 {
				t.Errorf("%s: %d columns: %s", tc.name, len(line), line)
			}
		}
	}
}
