package sim

import (
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"time"
)

// The published matrices, as they were released with llm-inference-bench.
//
//go:embed seeds/*.json
var seedFiles embed.FS

var seedNames = []string{"gemma-4-12b-vllm", "gemma-4-e2b-sglang", "laguna-xs-vllm"}

// Seed is a published matrix.
type Seed struct {
	Model         string    `json:"model"`
	Engine        string    `json:"engine"`
	EngineVersion string    `json:"engine_version"`
	ServedModel   string    `json:"served_model"`
	Launch        string    `json:"launch"`
	Seconds       float64   `json:"seconds"` // window
	MaxOutput     int       `json:"max_output"`
	Rows          []SeedRow `json:"rows"`
}

// SeedRow is one published cell. Its keys and units are those of the files.
type SeedRow struct {
	Phase        string   `json:"phase"` // prefill, decode
	Context      int      `json:"context"`
	Concurrency  int      `json:"concurrency"`
	Status       string   `json:"status"` // valid, looped, over_capacity
	TotalTokS    *float64 `json:"total_tok_s"`
	TTFTms       *float64 `json:"ttft_ms"`
	Completed    *int     `json:"completed"`
	OutputTokens *int     `json:"output_tokens"`
}

// LoadSeed returns a published matrix by its profile's name.
func LoadSeed(name string) (Seed, error) {
	b, err := seedFiles.ReadFile("seeds/" + name + ".json")
	if err != nil {
		return Seed{}, fmt.Errorf("sim: seed %q: %w", name, err)
	}
	var s Seed
	if err := json.Unmarshal(b, &s); err != nil {
		return Seed{}, fmt.Errorf("sim: seed %q: %w", name, err)
	}
	return s, nil
}

// TBT is the time between tokens that makes C streams of the row produce its
// output in a window of so many seconds, with n = output tokens / C:
//
//	nothing completed: window / n
//	else:              (window − TTFT) / (n − 1), the wait of one restart left out
func (r SeedRow) TBT(seconds float64) time.Duration {
	n := float64(*r.OutputTokens) / float64(r.Concurrency)
	ns := seconds * 1e9
	if *r.Completed == 0 {
		return time.Duration(math.Round(ns / n))
	}
	return time.Duration(math.Round((ns - *r.TTFTms*1e6) / (n - 1)))
}

// KVTokens is the KV budget between the largest cell that was run and the
// smallest that was not, C·(context + max output) each, in whole blocks.
func (s Seed) KVTokens(block int) int {
	ran, refused := 0, math.MaxInt
	for _, r := range s.Rows {
		if r.Phase != "decode" {
			continue
		}
		need := r.Concurrency * (r.Context + s.MaxOutput)
		if r.Status == "over_capacity" {
			refused = min(refused, need)
		} else {
			ran = max(ran, need)
		}
	}
	return (ran + refused) / 2 / block * block
}

// published fits a profile to a seed. docs/sim.md says what that means.
func published(name string) (Profile, error) {
	s, err := LoadSeed(name)
	if err != nil {
		return Profile{}, err
	}
	p := Profile{
		Name:       name,
		Dialect:    Dialect(s.Engine),
		Version:    s.EngineVersion,
		Model:      s.ServedModel,
		Root:       s.Model,
		BlockSize:  defaultBlock,
		MaxRunning: defaultMaxRunning,
		KVTokens:   s.KVTokens(defaultBlock),
	}
	if p.Dialect == VLLM {
		// Both vLLM launches speculate with 15 draft tokens. What was accepted
		// is not published; the totals depend on the mean step alone.
		p.Chunks = []int{3, 1, 5, 2, 4}
	}
	var ttft, tbt []Sample
	for _, r := range s.Rows {
		p.MaxModelLen = max(p.MaxModelLen, r.Context)
		switch {
		case r.Phase == "prefill":
			p.Speed.Prefill = append(p.Speed.Prefill, Point{r.Context, millis(*r.TTFTms)})
		case r.Status == "valid":
			ttft = append(ttft, Sample{r.Context, r.Concurrency, millis(*r.TTFTms)})
			tbt = append(tbt, Sample{r.Context, r.Concurrency, r.TBT(s.Seconds)})
		case r.Status == "looped":
			p.Loops = append(p.Loops, LoopRule{
				Context: r.Context, Concurrency: r.Concurrency, Share: 1,
				OnsetMin: 1500 * time.Millisecond, OnsetMax: 15 * time.Second,
				PeriodMin: 12, PeriodMax: 60, Faster: 2,
			})
		}
	}
	sort.Slice(p.Speed.Prefill, func(i, j int) bool { return p.Speed.Prefill[i].Tokens < p.Speed.Prefill[j].Tokens })
	p.Speed.TTFT, p.Speed.TBT = NewSurface(ttft), NewSurface(tbt)
	return p, nil
}

func millis(ms float64) time.Duration { return time.Duration(ms * 1e6) }
