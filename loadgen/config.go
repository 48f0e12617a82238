package loadgen

import (
	"fmt"
	"time"

	"github.com/streamgauge/streamgauge/detect"
	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
)

// Max in Config.Contexts stands for the largest context that fits
// (docs/measuring.md, "Prefill": model limit − max_tokens − 1024, down to 1K).
const Max = -1

// DefaultAsk is the literal end of each prompt. It asks for long, varied text,
// so that a model is not driven into a loop by the request itself.
const DefaultAsk = "Write a long story for grown readers in many short chapters, at least four thousand words. " +
	"Let every chapter bring another place, other people and an unexpected turn, vary the length of the sentences, " +
	"never repeat a sentence, and begin at once with the first chapter."

// Defaults of the run flags (contract: commands).
const (
	DefaultDuration  = 30 * time.Second
	DefaultSettle    = 3 * time.Second
	DefaultMaxTokens = 4096
	DefaultStall     = 60 * time.Second
	DefaultConnect   = 10 * time.Second
	DefaultMaxFailed = 0.01
)

// OnLoop says what becomes of a cell in which a stream looped.
type OnLoop string

const (
	Salvage OnLoop = "salvage" // count the clean spans
	Discard OnLoop = "discard" // the cell is looped and has no numbers
)

// Prefix says what the prompts of a cell have in common.
type Prefix string

const (
	Shared   Prefix = "shared"   // one salted context text, a different tail a stream
	Distinct Prefix = "distinct" // one salted context text a slot
)

// Config is a run's settings. A zero field means the default its comment names.
type Config struct {
	Model       string // "": the server's only model
	Endpoint    string // "chat" or "completions"; "": chat
	Contexts    []int  // tokens, in the order to run; Max for the largest; nil: 8k,16k,32k,64k,128k,max as far as they fit
	Concurrency []int  // in the order to run; nil: 1,2,4,…,128

	// Paced load, in place of Concurrency: requests are sent at instants chosen
	// beforehand, whether or not earlier ones have ended.
	Rates   []float64 // a second; a cell each, for Duration
	Stages  []Pace    // one after the other without a pause, a cell each
	Arrival Arrival   // "": Poisson
	MaxOpen int       // streams open at once; 0: 1024

	// SLO, if not zero, searches the highest level, between the least and the
	// greatest of Rates or else of Concurrency, at which it holds.
	SLO SLO

	Duration  time.Duration // of a window; 0: 30 s
	Settle    time.Duration // after every slot has produced a token; 0: 3 s, negative: none
	MaxTokens int           // of a reply; 0: 4096
	MaxTime   time.Duration // of the whole run; 0: none

	ForceLength bool // ask the server to ignore the end of the text
	OnLoop      OnLoop
	Prefix      Prefix
	KVRule      matrix.KVRule
	KVTokens    int // 0: from the server

	Temperature *float64
	TopP        *float64
	Thinking    *bool          // chat_template_kwargs, both names in use
	Effort      string         // reasoning_effort
	Extra       map[string]any // merged into each request body
	Ask         string         // "": DefaultAsk

	TTFTTimeout    time.Duration // 0: 60 s + 5 ms a context token; in a cell, the longest the cell can take on top
	StallTimeout   time.Duration // between generated events; 0: 60 s
	ConnectTimeout time.Duration // 0: 10 s
	MaxFailed      float64       // share of a cell's streams; 0: 1 %, negative: none may fail

	Limits detect.Limits // of the repetition detector

	Repeat int    // 0: 1
	Seed   uint64 // 0: 1
	// Salt is mixed into the salt of every prompt. Empty: the seed alone
	// determines the bodies, and a second run finds the server's prompt cache
	// warm; a fresh one per run keeps prefill rows cold.
	Salt string

	// PrefillSamples and PrefillTime end a prefill row, whichever comes first.
	PrefillSamples int           // 0: 3
	PrefillTime    time.Duration // 0: 10 s
	NoPrefill      bool          // leave the prefill rows out

	// Events puts the instant of every generated event into the records: a run
	// file of some 20 bytes a token.
	Events bool

	// ProxyAdmin is the admin base URL of our proxy in front of the server;
	// "": loadgen measures alone.
	ProxyAdmin string

	Tool  string            // "streamgauge v1.2.3", for the header
	Notes map[string]string // --note facts, for the header
}

// withDefaults fills the zero fields.
func (c Config) withDefaults() Config {
	def(&c.Endpoint, engine.Chat)
	def(&c.Duration, DefaultDuration)
	def(&c.Settle, DefaultSettle)
	c.Settle = max(c.Settle, 0)
	def(&c.MaxTokens, DefaultMaxTokens)
	def(&c.OnLoop, Salvage)
	def(&c.Prefix, Shared)
	def(&c.KVRule, matrix.KVDistinct)
	def(&c.Arrival, Poisson)
	def(&c.MaxOpen, DefaultMaxOpen)
	def(&c.Ask, DefaultAsk)
	def(&c.StallTimeout, DefaultStall)
	def(&c.ConnectTimeout, DefaultConnect)
	def(&c.MaxFailed, DefaultMaxFailed)
	c.MaxFailed = max(c.MaxFailed, 0)
	def(&c.Repeat, 1)
	def(&c.Seed, 1)
	def(&c.PrefillSamples, 3)
	def(&c.PrefillTime, 10*time.Second)
	if len(c.Concurrency) == 0 {
		c.Concurrency = []int{1, 2, 4, 8, 16, 32, 64, 128}
	}
	return c
}

func def[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// Validate reports all mistakes of the settings together, one a line.
func (c Config) Validate() error {
	c = c.withDefaults()
	var bad mistakes
	bad.unless(c.Endpoint == engine.Chat || c.Endpoint == engine.Completions, "endpoint %q is neither chat nor completions", c.Endpoint)
	bad.unless(c.OnLoop == Salvage || c.OnLoop == Discard, "on-loop %q is neither salvage nor discard", c.OnLoop)
	bad.unless(c.Prefix == Shared || c.Prefix == Distinct, "prefix %q is neither shared nor distinct", c.Prefix)
	bad.unless(c.KVRule == matrix.KVDistinct || c.KVRule == matrix.KVShared || c.KVRule == matrix.KVOff,
		"kv-rule %q is none of distinct, shared, off", c.KVRule)
	for _, l := range c.Contexts {
		bad.unless(l >= 0 || l == Max, "context %d is negative", l)
	}
	for _, n := range c.Concurrency {
		bad.unless(n > 0, "concurrency %d is not positive", n)
	}
	c.validateLoad(&bad)
	bad.unless(c.Duration > 0, "duration %v is not positive", c.Duration)
	bad.unless(c.MaxTokens > 0, "max-tokens %d is not positive", c.MaxTokens)
	bad.unless(c.Repeat > 0, "repeat %d is not positive", c.Repeat)
	bad.unless(c.MaxFailed <= 1, "max-failed %g is over 1", c.MaxFailed)
	bad.unless(c.KVTokens >= 0, "kv-tokens %d is negative", c.KVTokens)
	if err := c.Limits.Validate(); err != nil {
		bad = append(bad, err.Error())
	}
	if err := engine.CheckExtra(c.Extra); err != nil {
		bad = append(bad, err.Error())
	}
	bad.unless(c.TTFTTimeout >= 0 && c.StallTimeout > 0 && c.ConnectTimeout > 0, "a timeout is negative")
	return bad.err()
}

// validateLoad checks the settings of paced load and of the search.
func (c Config) validateLoad(bad *mistakes) {
	for _, r := range c.Rates {
		bad.unless(r > 0 && r <= maxRate, "rate %g is not above 0 and up to %d a second", r, int(maxRate))
	}
	for _, s := range c.Stages {
		bad.unless(s.Rate > 0 && s.Rate <= maxRate, "stage rate %g is not above 0 and up to %d a second", s.Rate, int(maxRate))
		bad.unless(s.For >= time.Second, "a stage of %v is shorter than 1s", s.For)
	}
	bad.unless(len(c.Rates) == 0 || len(c.Stages) == 0, "rate and stages are both given: a rate is one stage")
	bad.unless(c.Arrival == Poisson || c.Arrival == Constant, "arrival %q is neither poisson nor constant", c.Arrival)
	bad.unless(c.MaxOpen > 0, "max-open %d is not positive", c.MaxOpen)
	bad.unless(!c.paced() || c.Prefix == Shared, "prefix distinct gives each slot a context, and paced load has no slots")
	bad.unless(c.SLO.TTFT >= 0 && c.SLO.TBT >= 0, "a target of the slo is negative")
	bad.unless(c.SLO == SLO{} || len(c.Stages) == 0, "slo searches one rate, and stages have several: give --rate 1..64/s")
}

// maxRate is more than one process can send, by far.
const maxRate = 1e6

// paced reports whether load is offered at rates instead of held at a concurrency.
func (c Config) paced() bool { return len(c.Rates) > 0 || len(c.Stages) > 0 }

type mistakes []string

func (m *mistakes) unless(ok bool, format string, args ...any) {
	if !ok {
		*m = append(*m, fmt.Sprintf(format, args...))
	}
}

func (m mistakes) err() error {
	switch len(m) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("settings: %s", m[0])
	}
	s := fmt.Sprintf("%d mistakes in the settings:", len(m))
	for _, line := range m {
		s += "\n  " + line
	}
	return fmt.Errorf("%s", s)
}

// ttftTimeout is how long a single request of this context may wait for its first
// token: by default it grows with the prompt, as if read at 200 tokens/s.
func (c Config) ttftTimeout(context int) time.Duration {
	if c.TTFTTimeout > 0 {
		return c.TTFTTimeout
	}
	return time.Minute + time.Duration(context)*5*time.Millisecond
}

// burstTimeout is the same for the streams of a cell. One that the server leaves
// waiting behind others has not failed: by default it may wait as long as the
// cell can take, so that admission shows in the cell and not as failures.
func (c Config) burstTimeout(context int, ready time.Duration) time.Duration {
	if c.TTFTTimeout > 0 {
		return c.TTFTTimeout
	}
	return c.ttftTimeout(context) + ready + c.Settle + c.Duration
}
