package loadgen

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
)

// tailTokens is what a prompt holds beside its context text (salt, tail, ask,
// chat template), for fit arithmetic before anything was counted.
const tailTokens = 128

// defaultContexts are run as far as they fit.
var defaultContexts = []int{8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10}

// Step is one cell to run.
type Step struct {
	Phase       matrix.CellPhase
	Context     int // label, tokens
	Prompt      int // tokens to send; 0: the tail alone
	Concurrency int // of paced load: the bound on open streams
	Repeat      int
	Load        []Pace // of phase Offered; a cell each
	Arrival     Arrival
	Search      bool // for the highest level at which the SLO holds
	Fit         matrix.Fit
	Estimate    time.Duration // 0 when it does not fit; of a prefill row, the most it may take before its last sample
}

// Plan is the cells of a run in the order they run: for each repeat, for each
// context its prefill row, then its decode cells; the prefill row of the model's
// limit last.
type Plan struct {
	Contexts    []int // resolved, no duplicates
	Concurrency []int
	Limit       int // tokens of one request, 0 unknown
	KVTokens    int // 0 unknown
	Steps       []Step
	Estimate    time.Duration // sum of the steps that fit; waits for first tokens come on top
	Notes       []string      // what --contexts does not say: contexts left out, each with the arithmetic, and the row at the limit
}

// NewPlan resolves the contexts and weighs each cell against the server.
func NewPlan(cfg Config, info engine.Info) (Plan, error) {
	if err := cfg.Validate(); err != nil {
		return Plan{}, err
	}
	cfg = cfg.withDefaults()
	p := Plan{Limit: info.MaxModelLen, KVTokens: info.KVTokens, Concurrency: unique(cfg.Concurrency)}
	if cfg.KVTokens > 0 {
		p.KVTokens = cfg.KVTokens
	}
	if info.SlotContext > 0 && (p.Limit == 0 || info.SlotContext < p.Limit) {
		p.Limit = info.SlotContext
	}
	if err := p.resolve(cfg); err != nil {
		return Plan{}, err
	}
	for r := range cfg.Repeat {
		for _, l := range p.Contexts {
			if !cfg.NoPrefill {
				p.add(cfg, info, Step{Phase: matrix.Prefill, Context: l, Prompt: p.prefillPrompt(l), Concurrency: 1, Repeat: r})
			}
			for _, s := range p.levels(cfg) {
				s.Context, s.Prompt, s.Repeat = l, l, r
				p.add(cfg, info, s)
			}
		}
		if p.Limit > 0 && !cfg.NoPrefill && !slices.Contains(p.Contexts, p.Limit) {
			p.add(cfg, info, Step{Phase: matrix.Prefill, Context: p.Limit, Prompt: p.Limit - 1, Concurrency: 1, Repeat: r})
			if r == 0 && cfg.Contexts != nil {
				p.Notes = append(p.Notes, fmt.Sprintf("the prefill row at the model's limit of %d tokens is run beside those of --contexts, last; "+
					"a prompt of that length may take minutes, and --no-prefill leaves the prefill rows out", p.Limit))
			}
		}
	}
	return p, nil
}

// levels are the steps of one context: a cell for each concurrency or rate, the
// stages together, or one search.
func (p *Plan) levels(cfg Config) []Step {
	var out []Step
	switch {
	case len(cfg.Stages) > 0:
		return []Step{{Phase: matrix.Offered, Concurrency: cfg.MaxOpen, Load: cfg.Stages, Arrival: cfg.Arrival}}
	case cfg.paced():
		for _, r := range cfg.Rates {
			out = append(out, Step{Phase: matrix.Offered, Concurrency: cfg.MaxOpen, Load: []Pace{{r, cfg.Duration}}, Arrival: cfg.Arrival})
		}
	default:
		for _, c := range p.Concurrency {
			out = append(out, Step{Phase: matrix.Decode, Concurrency: c})
		}
	}
	if cfg.SLO != (SLO{}) {
		// The least level stands for the search: if that does not fit, none does.
		least := slices.MinFunc(out, func(a, b Step) int { return cmp.Compare(a.level(), b.level()) })
		least.Search = true
		return []Step{least}
	}
	return out
}

// level is what a search varies: concurrency, or requests a second.
func (s Step) level() float64 {
	if s.Phase == matrix.Offered {
		return s.Load[0].Rate
	}
	return float64(s.Concurrency)
}

// Cells are those that the step makes, in their order, without numbers. Those of a
// search are made as it finds its way; the first of them stands for it.
func (s Step) Cells() []matrix.Cell {
	one := matrix.Cell{
		Type: "cell", V: matrix.Version, Phase: s.Phase, Context: s.Context, Concurrency: s.Concurrency,
		Repeat: s.Repeat, Status: matrix.Valid, Warnings: []matrix.Warning{}, PerSecond: []float64{},
	}
	if s.Phase != matrix.Offered {
		return []matrix.Cell{one}
	}
	var out []matrix.Cell
	for i, l := range s.Load {
		one.Offered = &matrix.OfferedLoad{Rate: l.Rate, Arrival: string(s.Arrival), Stage: i, LengthS: l.For.Seconds()}
		out = append(out, one)
	}
	return out
}

// Have returns the step's cells among those of a run, when none of them needs a
// second measurement; else nothing. A search looks for its cells itself.
func (s Step) Have(run []matrix.Cell) []matrix.Cell {
	if s.Search {
		return nil
	}
	var out []matrix.Cell
	for _, want := range s.Cells() {
		i := slices.IndexFunc(run, func(c matrix.Cell) bool { return c.Same(&want) && c.Final() })
		if i < 0 {
			return nil
		}
		out = append(out, run[i])
	}
	return out
}

// prefillPrompt is the length of a prefill row's prompt: its label, but one
// less at the model's limit, where one token of output must fit too.
func (p *Plan) prefillPrompt(context int) int {
	if context == p.Limit && context > 0 {
		return context - 1
	}
	return context
}

// resolve turns the asked contexts into numbers.
func (p *Plan) resolve(cfg Config) error {
	largest := matrix.MaxContext(p.Limit, cfg.MaxTokens)
	sum := fmt.Sprintf("model limit %d − max_tokens %d − 1024", p.Limit, cfg.MaxTokens)
	if cfg.Contexts == nil {
		for _, l := range defaultContexts {
			if p.Limit == 0 || l <= largest {
				p.Contexts = append(p.Contexts, l)
				continue
			}
			p.Notes = append(p.Notes, fmt.Sprintf("context %d is left out: %s leaves %d", l, sum, largest))
		}
		if p.Limit > 0 && largest > 0 {
			p.Contexts = append(p.Contexts, largest)
		}
		if p.Contexts = unique(p.Contexts); len(p.Contexts) == 0 {
			return fmt.Errorf("no default context fits: %s leaves nothing; give --contexts or a smaller --max-tokens", sum)
		}
		return nil
	}
	for _, l := range cfg.Contexts {
		switch {
		case l != Max:
			p.Contexts = append(p.Contexts, l)
		case p.Limit == 0:
			return errors.New("context max is unknown: the server does not tell its model limit; give --contexts in numbers")
		case largest == 0:
			p.Notes = append(p.Notes, fmt.Sprintf("context max is left out: %s leaves nothing", sum))
		default:
			p.Contexts = append(p.Contexts, largest)
		}
	}
	if p.Contexts = unique(p.Contexts); len(p.Contexts) == 0 {
		return fmt.Errorf("no context is left to run: %s leaves nothing", sum)
	}
	return nil
}

func (p *Plan) add(cfg Config, info engine.Info, s Step) {
	s = p.weigh(cfg, info, s)
	p.Estimate += s.Estimate
	p.Steps = append(p.Steps, s)
}

// weigh lays a step beside the server.
func (p *Plan) weigh(cfg Config, info engine.Info, s Step) Step {
	in := matrix.FitInput{
		Context: max(s.Prompt, tailTokens), Concurrency: s.Concurrency, MaxTokens: cfg.MaxTokens,
		Tail: tailTokens, ModelLimit: info.MaxModelLen, SlotContext: info.SlotContext,
		MaxRunning: info.MaxRunning, KVTokens: p.KVTokens, Rule: cfg.KVRule,
	}
	s.Estimate = cfg.Settle + cfg.Duration + 2*time.Second
	if s.Phase == matrix.Prefill {
		in.MaxTokens = 1
		s.Estimate = cfg.PrefillTime // at most, but for the sample under way then
	}
	if s.Phase == matrix.Offered {
		in.Concurrency = 1 // how many are open is for the server to show
		s.Estimate = cfg.Settle + 2*time.Second
		for _, l := range s.Load {
			s.Estimate += l.For
		}
	}
	if s.Search {
		s.Estimate *= typicalSearch
	}
	if s.Fit = matrix.Fits(in); !s.Fit.OK {
		s.Estimate = 0
	}
	return s
}

// Runnable counts the steps that fit.
func (p *Plan) Runnable() int {
	n := 0
	for _, s := range p.Steps {
		if s.Fit.OK {
			n++
		}
	}
	return n
}

// unique drops later duplicates; the order stays.
func unique(v []int) []int {
	var out []int
	for _, x := range v {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}
