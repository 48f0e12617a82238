package main

import (
	"slices"
	"time"

	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/configs"
	"github.com/streamgauge/streamgauge/detect"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
)

// runConfig makes a run's settings. Where the configuration's 0 says "none" and
// the run's 0 says "default", a negative value says none.
func runConfig(c *configs.Loadgen, loaded *configs.Loaded) loadgen.Config {
	cfg := loadgen.Config{
		Model: c.Model, Endpoint: c.Endpoint, Concurrency: c.Concurrency,
		Duration: c.Duration, Settle: none(c.Settle), MaxTokens: c.MaxTokens, MaxTime: c.MaxTime,
		ForceLength: c.ForceLength, OnLoop: loadgen.OnLoop(c.OnLoop), Prefix: loadgen.Prefix(c.Prefix),
		KVRule: matrix.KVRule(c.KVRule), KVTokens: c.KVTokens,
		Temperature: c.Temperature, TopP: c.TopP, Thinking: c.Thinking, Effort: c.ReasoningEffort,
		Extra: c.ExtraBody, Ask: c.Ask,
		TTFTTimeout: c.TTFTTimeout, StallTimeout: c.StallTimeout, ConnectTimeout: c.ConnectTimeout,
		MaxFailed: none(c.MaxFailed), Repeat: c.Repeat, Seed: c.Seed,
		NoPrefill: c.NoPrefill, Events: c.Events,
		Rates: c.Rate, Stages: stages(c.Stages), Arrival: loadgen.Arrival(c.Arrival), MaxOpen: c.MaxOpen, SLO: loadgen.SLO(c.SLO),
		Limits:     c.Limits(),
		ProxyAdmin: c.ProxyAdmin, Tool: "streamgauge " + program.Version(), Notes: map[string]string{},
	}
	if loaded.Given("contexts") {
		cfg.Contexts = contexts(c.Contexts)
	}
	// A seed that somebody chose gives the same bodies again; else every run has
	// a salt of its own, so that its prefill rows do not meet a warm cache.
	if src := loaded.Sources["seed"]; src != configs.FromFlag && src != configs.FromEnv && !loaded.Given("seed") {
		cfg.Salt = time.Now().UTC().Format("20060102150405.000000000")
	}
	for _, p := range c.Notes {
		cfg.Notes[p.Name] = p.Value
	}
	return cfg
}

func none[T float64 | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

// contexts maps the configuration's word for the largest context to the run's.
func contexts(in []int) []int {
	out := make([]int, len(in))
	for i, l := range in {
		if out[i] = l; l == configs.Max {
			out[i] = loadgen.Max
		}
	}
	return out
}

// adopt gives a run that goes on in a file the file's value of each setting that
// was not given.
func adopt(cfg *loadgen.Config, loaded *configs.Loaded, run *matrix.Run) {
	h := &run.Header
	c := &h.Config
	unless := func(take func(), names ...string) {
		if !slices.ContainsFunc(names, func(name string) bool { return loaded.Sources[name] != configs.FromDefault }) {
			take()
		}
	}
	unless(func() { cfg.Endpoint = c.Endpoint }, "endpoint")
	unless(func() { cfg.Contexts = c.Contexts }, "contexts")
	unless(func() { cfg.Concurrency = c.Concurrency }, "concurrency")
	unless(func() { cfg.Duration = inSeconds(c.DurationS) }, "duration")
	unless(func() { cfg.Settle = none(inSeconds(c.SettleS)) }, "settle")
	unless(func() { cfg.MaxTokens = c.MaxTokens }, "max-tokens")
	unless(func() { cfg.ForceLength = c.ForceLength }, "force-length", "respect-eos")
	unless(func() { cfg.OnLoop = loadgen.OnLoop(c.OnLoop) }, "on-loop")
	unless(func() { cfg.Prefix = loadgen.Prefix(c.Prefix) }, "prefix")
	unless(func() { cfg.KVRule = matrix.KVRule(c.KVRule) }, "kv-rule")
	if h.Engine.Sources["kv_tokens"] == "--kv-tokens" {
		unless(func() { cfg.KVTokens = h.Engine.KVTokens }, "kv-tokens")
	}
	unless(func() {
		// Files from before the key was written show it in their cells: a
		// context's prefill row is run before them.
		cfg.NoPrefill = c.NoPrefill || len(run.Cells) > 0 && run.Cells[0].Phase != matrix.Prefill
	}, "no-prefill")
	adoptLoad(cfg, unless, c)
	unless(func() { cfg.Repeat = c.Repeat }, "repeat")
	unless(func() {
		cfg.Seed = c.Seed
		if c.Salt == "" {
			cfg.Salt = ""
		}
	}, "seed")
	unless(func() { cfg.Temperature = c.Temperature }, "temperature")
	unless(func() { cfg.TopP = c.TopP }, "top-p")
	unless(func() { cfg.Thinking = c.Thinking }, "thinking")
	unless(func() { cfg.Effort = c.ReasoningEffort }, "reasoning-effort")
	unless(func() { cfg.Ask = c.Ask }, "ask")
	unless(func() { cfg.MaxFailed = none(c.MaxFailed) }, "max-failed")
	if d := c.Detect; d != nil {
		unless(func() {
			cfg.Limits = detect.Limits{Cycles: d["cycles"], Chars: d["chars"], WhiteSpace: d["whitespace"],
				PeriodBytes: d["period_bytes"], PeriodChars: d["period_chars"]}
		}, "detect-cycles", "detect-chars", "detect-whitespace", "detect-period-bytes", "detect-period-chars")
	}
}

// adoptLoad is adopt for paced load and the search.
func adoptLoad(cfg *loadgen.Config, unless func(take func(), names ...string), c *matrix.Config) {
	if p := c.Paced; p != nil {
		unless(func() {
			cfg.Rates, cfg.Stages = p.Rates, nil
			for _, s := range p.Stages {
				cfg.Stages = append(cfg.Stages, loadgen.Pace{Rate: s.Rate, For: inSeconds(s.LengthS)})
			}
		}, "rate", "stages", "concurrency")
		unless(func() { cfg.Arrival = loadgen.Arrival(p.Arrival) }, "arrival")
		unless(func() { cfg.MaxOpen = p.MaxOpen }, "max-open")
	}
	if s := c.SLO; s != nil {
		unless(func() { cfg.SLO = loadgen.SLO{TTFT: inSeconds(s.TTFTMS / 1e3), TBT: inSeconds(s.TBTMS / 1e3)} }, "slo")
	}
}

// stages maps the configuration's stages to the run's.
func stages(in []configs.Stage) []loadgen.Pace {
	var out []loadgen.Pace
	for _, s := range in {
		out = append(out, loadgen.Pace{Rate: s.Rate, For: s.For})
	}
	return out
}

func inSeconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// adoptServer does the same for what says where the server is.
func adoptServer(c *configs.Loadgen, loaded *configs.Loaded, h *matrix.Header) {
	if loaded.Sources["url"] == configs.FromDefault {
		c.URL = h.Config.URL
	}
	if loaded.Sources["model"] == configs.FromDefault {
		c.Model = h.Engine.Model
	}
}
