package sim

import (
	"fmt"
	"time"
)

// Dialect is the engine whose wire shapes, endpoints and errors are spoken.
type Dialect string

// The engines that captured traffic exists of.
const (
	VLLM     Dialect = "vllm"
	SGLang   Dialect = "sglang"
	LlamaCPP Dialect = "llamacpp"
)

// Profile is what a simulated engine is. The zero value of a field means what
// its comment says.
type Profile struct {
	Name    string
	Dialect Dialect // "" = VLLM
	Version string  // as the engine reports it
	Model   string  // served name
	Root    string  // model path; "" = Model

	MaxModelLen int // longest prompt + output, tokens; llama.cpp: n_ctx of one slot
	KVTokens    int // KV cache capacity, tokens
	BlockSize   int // granularity of the KV and prompt caches, tokens; 0 = 16
	MaxRunning  int // sequences running at once; 0 = 256. llama.cpp: slots

	Speed     Speed
	Chunks    []int      // tokens per chunk, taken in turn from a random place in the cycle; nil = 1. The first chunk has one token
	EOS       Lengths    // natural length of a reply; zero = endless
	Loops     []LoopRule // which streams fall into a loop; nil = none
	Reasoning int        // leading tokens of a reply that are reasoning
	Tokenizer Tokenizer  // zero = words

	LateHeaders Late          // when the response header is sent
	Ping        time.Duration // comment line after so long a silence; 0 = the dialect's default (llama.cpp 30 s, else never)
	Linger      time.Duration // a request whose client left runs on for so long, unless aborted
	DeafToEOS   bool          // ignore_eos and min_tokens have no effect
	CacheReport bool          // usage tells cached_tokens (llama.cpp always does)

	Suggested Plan // a run that shows what the profile can do
}

// Late says when the response header is sent.
type Late uint8

// Real engines differ: vLLM answers at once, SGLang with the first token,
// llama.cpp when the request has a slot.
const (
	AsDialect Late = iota
	AtOnce
	AtAdmission
	WithFirstToken
)

// Plan is a small matrix to run against a profile.
type Plan struct {
	Contexts    []int // tokens
	Concurrency []int
	MaxTokens   int
	Settle      time.Duration
	Duration    time.Duration
}

// Lengths is a log-normal distribution of reply lengths in tokens. The zero
// value never ends.
type Lengths struct {
	Median float64
	Sigma  float64 // of the logarithm
}

// LoopRule makes streams of some cells loop. The first rule that matches a
// stream's prompt and the number of sequences running at its first token
// applies. Contexts match as in Surface, within 1 % or 64 tokens; concurrency
// within a fifth, because streams that restart are missing for a moment.
type LoopRule struct {
	Context     int // tokens; 0 = any
	Concurrency int // 0 = any
	Share       float64
	// The onset is uniform between these times of decoding, capped so that
	// the loop can be confirmed before a reply of 4096 tokens ends.
	OnsetMin, OnsetMax time.Duration
	PeriodMin          int // tokens of a cycle
	PeriodMax          int
	// Tokens per chunk are multiplied by Faster inside a loop (0 = 1):
	// drafts of repeated text are nearly always accepted.
	Faster int
}

func (r *LoopRule) matches(prompt, load int) bool {
	off := load - r.Concurrency
	return (r.Context == 0 || meets(prompt, r.Context)) &&
		(r.Concurrency == 0 || 5*max(off, -off) <= r.Concurrency)
}

const (
	defaultBlock      = 16
	defaultMaxRunning = 256
	// maxOnset leaves 4096 characters, at 5.5 or so a token, to confirm a loop in.
	maxOnset = 3000
)

func (p Profile) withDefaults() Profile {
	if p.Dialect == "" {
		p.Dialect = VLLM
	}
	if p.Root == "" {
		p.Root = p.Model
	}
	if p.BlockSize == 0 {
		p.BlockSize = defaultBlock
	}
	if p.MaxRunning == 0 {
		p.MaxRunning = defaultMaxRunning
	}
	if p.KVTokens == 0 {
		p.KVTokens = p.MaxModelLen * p.MaxRunning
	}
	if len(p.Chunks) == 0 {
		p.Chunks = []int{1}
	}
	if p.LateHeaders == AsDialect {
		switch p.Dialect {
		case SGLang:
			p.LateHeaders = WithFirstToken
		case LlamaCPP:
			p.LateHeaders = AtAdmission
		default:
			p.LateHeaders = AtOnce
		}
	}
	if p.Ping == 0 && p.Dialect == LlamaCPP {
		p.Ping = 30 * time.Second
	}
	return p
}

// chunkMean is the mean number of tokens of a chunk.
func (p Profile) chunkMean() float64 {
	sum := 0
	for _, n := range p.Chunks {
		sum += n
	}
	return float64(sum) / float64(len(p.Chunks))
}

// Profiles returns the names of the profiles that come with the package.
func Profiles() []string {
	return append([]string{"plain", "demo"}, seedNames...)
}

// Lookup returns a profile by name.
func Lookup(name string) (Profile, error) {
	switch name {
	case "plain":
		return plain(), nil
	case "demo":
		return demo(), nil
	}
	for _, s := range seedNames {
		if s == name {
			return published(name)
		}
	}
	return Profile{}, fmt.Errorf("sim: no profile %q (have %v)", name, Profiles())
}
