package loadgen

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
)

// steps prints a plan as "P8192 D8192x1 …", with the reason behind what does
// not fit.
func steps(p Plan) string {
	var out []string
	for _, s := range p.Steps {
		text := fmt.Sprintf("D%dx%d", s.Context, s.Concurrency)
		if s.Phase == matrix.Prefill {
			text = fmt.Sprintf("P%d", s.Context)
			if s.Prompt != s.Context {
				text += fmt.Sprintf("(%d)", s.Prompt)
			}
		}
		if !s.Fit.OK {
			text += ":" + s.Fit.Reason
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// TestR32 is the plan's part of R32: duplicates drop, the order stays as stated,
// and a plan of one cell, or of none that fits, is a plan.
func TestR32(t *testing.T) {
	for _, c := range []struct {
		name string // the reason
		cfg  Config
		info engine.Info
		want string
	}{
		{
			"order stated, duplicates dropped",
			Config{Contexts: []int{8192, 256 << 10, 0, 8192}, Concurrency: []int{1, 128, 2, 1}, NoPrefill: true},
			engine.Info{},
			"D8192x1 D8192x128 D8192x2 D262144x1 D262144x128 D262144x2 D0x1 D0x128 D0x2",
		}, {
			"one cell only",
			Config{Contexts: []int{8192}, Concurrency: []int{4}, NoPrefill: true},
			engine.Info{MaxModelLen: 32768},
			"D8192x4",
		}, {
			"no cell fits",
			Config{Contexts: []int{65536}, Concurrency: []int{1}},
			engine.Info{MaxModelLen: 32768},
			"P65536:model_limit D65536x1:model_limit P32768(32767)",
		}, {
			"max is limit − max_tokens − 1024, down to 1K, and keeps its place",
			Config{Contexts: []int{Max, 1024}, Concurrency: []int{1}, MaxTokens: 4096},
			engine.Info{MaxModelLen: 262144},
			"P257024 D257024x1 P1024 D1024x1 P262144(262143)",
		}, {
			"the defaults run as far as they fit",
			Config{Concurrency: []int{1}, NoPrefill: true},
			engine.Info{MaxModelLen: 131072},
			"D8192x1 D16384x1 D32768x1 D65536x1 D125952x1",
		}, {
			"an unknown limit skips nothing",
			Config{Concurrency: []int{1}, NoPrefill: true},
			engine.Info{},
			"D8192x1 D16384x1 D32768x1 D65536x1 D131072x1",
		}, {
			"a context at the limit has one prefill row, one token short",
			Config{Contexts: []int{4096}, Concurrency: []int{1}},
			engine.Info{MaxModelLen: 4096},
			"P4096(4095) D4096x1:model_limit",
		}, {
			"KV capacity decides cell by cell",
			Config{Contexts: []int{8192}, Concurrency: []int{1, 2, 4}, KVTokens: 30000, NoPrefill: true},
			engine.Info{MaxModelLen: 32768, KVTokens: 1 << 20},
			"D8192x1 D8192x2 D8192x4:kv_capacity",
		}, {
			"a llama.cpp slot is the limit",
			Config{Contexts: []int{8192}, Concurrency: []int{1, 8}},
			engine.Info{MaxModelLen: 32768, SlotContext: 8192, MaxRunning: 4},
			"P8192(8191) D8192x1:slot_context D8192x8:slot_context",
		}, {
			"repeats run the whole matrix again",
			Config{Contexts: []int{0}, Concurrency: []int{1, 2}, Repeat: 2, NoPrefill: true},
			engine.Info{},
			"D0x1 D0x2 D0x1 D0x2",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := NewPlan(c.cfg, c.info)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(steps(p), c.want); d != "" {
				t.Errorf("plan (got -, want +):\n%s", d)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		info engine.Info
		want string
	}{
		{"max without a limit", Config{Contexts: []int{Max}}, engine.Info{}, "does not tell its model limit"},
		{"nothing left of a small model", Config{}, engine.Info{MaxModelLen: 4096}, "no default context fits: model limit 4096"},
		{"max alone, of a small model", Config{Contexts: []int{Max}}, engine.Info{MaxModelLen: 4096}, "no context is left"},
		{"all mistakes at once", Config{Concurrency: []int{0}, OnLoop: "ignore", Endpoint: "embeddings"}, engine.Info{}, "3 mistakes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewPlan(c.cfg, c.info)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestPlanEstimate(t *testing.T) {
	p, err := NewPlan(Config{Contexts: []int{8192}, Concurrency: []int{1, 64}, KVTokens: 100000}, engine.Info{MaxModelLen: 32768})
	if err != nil {
		t.Fatal(err)
	}
	// Two prefill rows of at most 10 s; of the cells one fits: 3 + 30 + 2 s.
	if want := 55 * time.Second; p.Estimate != want || p.Runnable() != 3 {
		t.Errorf("estimate %v for %d steps, want %v for 3", p.Estimate, p.Runnable(), want)
	}
	if got := p.Steps[2].Fit.Message; got != "64·(8192 + 4096) = 786432 tokens is over the KV capacity of 100000" {
		t.Errorf("fit arithmetic %q", got)
	}
}

// A prompt without context text still has its salt, its tail and the ask: the
// plan weighs a prefill row of them as what is sent, not as one token.
func TestPrefillOfNoContextWeighsItsTail(t *testing.T) {
	p, err := NewPlan(Config{Contexts: []int{0}, Concurrency: []int{1}}, engine.Info{MaxModelLen: 8192, KVTokens: 10000})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Steps[0].Fit.Message, "1·(128 + 1) = 129 tokens fits the KV capacity of 10000"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The row at the model's limit is not among --contexts and may be the longest of
// the run: the plan says that it is run, and how not to.
func TestPlanTellsOfTheRowAtTheLimit(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		want int // notes
	}{
		{"contexts given", Config{Contexts: []int{1024}, Concurrency: []int{1}, Repeat: 2}, 1},
		{"without prefill rows", Config{Contexts: []int{1024}, Concurrency: []int{1}, NoPrefill: true}, 0},
		{"the limit is among them", Config{Contexts: []int{16384}, Concurrency: []int{1}}, 0},
	} {
		p, err := NewPlan(c.cfg, engine.Info{MaxModelLen: 16384})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Notes) != c.want || c.want == 1 && (!strings.Contains(p.Notes[0], "limit of 16384") || !strings.Contains(p.Notes[0], "--no-prefill")) {
			t.Errorf("%s: notes %q, want %d that name limit and flag", c.name, p.Notes, c.want)
		}
	}
}
