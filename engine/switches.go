package engine

import "slices"

// Switches is what a request asks of a server beyond the prompt: the fields that
// make it tell its token counts, and those that force a length.
type Switches struct {
	IncludeUsage    bool `json:"include_usage"`    // stream_options.include_usage
	ContinuousUsage bool `json:"continuous_usage"` // stream_options.continuous_usage_stats; needs IncludeUsage
	TokenIDs        bool `json:"token_ids"`        // return_token_ids
	TimingsPerToken bool `json:"timings_per_token"`
	ReturnProgress  bool `json:"return_progress"`
	IgnoreEOS       bool `json:"ignore_eos"`
	MinTokens       bool `json:"min_tokens"`   // min_tokens = max tokens
	CachePrompt     bool `json:"cache_prompt"` // cache_prompt:false on a cold request is understood
	RID             bool `json:"rid"`          // rid, by which Abort finds the request

	MaxTokensKey string `json:"max_tokens_key"` // max_tokens or max_completion_tokens

	// Dropped names what the server refused, in the order it was given up.
	Dropped []string `json:"dropped"`
}

const (
	maxTokensKey           = "max_tokens"
	maxCompletionTokensKey = "max_completion_tokens"
)

// Defaults returns the switches for an engine (docs/measuring.md, "Token
// counts"): those that give the best count it has, and with forceLength those
// that make a stream exactly as long as asked.
func Defaults(kind Kind, forceLength bool) Switches {
	s := Switches{IncludeUsage: true, IgnoreEOS: forceLength, MaxTokensKey: maxTokensKey}
	switch kind {
	case VLLM:
		s.ContinuousUsage, s.TokenIDs, s.MinTokens = true, true, forceLength
	case SGLang:
		// return_token_ids is a 400 there when the chat streams.
		s.ContinuousUsage, s.RID, s.MinTokens = true, true, forceLength
	case LlamaCPP:
		s.TimingsPerToken, s.ReturnProgress, s.CachePrompt = true, true, true
	default:
		s.ContinuousUsage, s.MinTokens = true, forceLength
	}
	return s
}

// field is one field of a request that may be given up.
type field struct {
	name string
	on   func(*Switches) bool
	set  func(*Switches, bool)
}

// ladder is the order in which fields are given up: extensions of one engine
// first, then from the most to the least useful to have. stream_options goes
// with continuous_usage_stats already gone, so dropping it alone is enough.
var ladder = []field{
	{"return_token_ids", func(s *Switches) bool { return s.TokenIDs }, func(s *Switches, v bool) { s.TokenIDs = v }},
	{"timings_per_token", func(s *Switches) bool { return s.TimingsPerToken }, func(s *Switches, v bool) { s.TimingsPerToken = v }},
	{"return_progress", func(s *Switches) bool { return s.ReturnProgress }, func(s *Switches, v bool) { s.ReturnProgress = v }},
	{"cache_prompt", func(s *Switches) bool { return s.CachePrompt }, func(s *Switches, v bool) { s.CachePrompt = v }},
	{"rid", func(s *Switches) bool { return s.RID }, func(s *Switches, v bool) { s.RID = v }},
	{"continuous_usage_stats", func(s *Switches) bool { return s.ContinuousUsage }, func(s *Switches, v bool) { s.ContinuousUsage = v && s.IncludeUsage }},
	{"stream_options", func(s *Switches) bool { return s.IncludeUsage }, func(s *Switches, v bool) { s.IncludeUsage = v }},
	{"min_tokens", func(s *Switches) bool { return s.MinTokens }, func(s *Switches, v bool) { s.MinTokens = v }},
	{"ignore_eos", func(s *Switches) bool { return s.IgnoreEOS }, func(s *Switches, v bool) { s.IgnoreEOS = v }},
	{maxTokensKey, func(s *Switches) bool { return s.MaxTokensKey == maxTokensKey }, func(s *Switches, v bool) {
		s.MaxTokensKey = maxCompletionTokensKey
		if v {
			s.MaxTokensKey = maxTokensKey
		}
	}},
}

// Sent names the fields of a request that s turns on.
func (s Switches) Sent() []string {
	names := []string{s.MaxTokensKey}
	for _, f := range ladder {
		if f.name != maxTokensKey && f.on(&s) {
			names = append(names, f.name)
		}
	}
	return names
}

// drop gives a field up and notes it.
func (s Switches) drop(f field) Switches {
	f.set(&s, false)
	s.Dropped = append(slices.Clone(s.Dropped), f.name)
	return s
}

// restore takes a field back; ok is false when another one that it needs is gone.
func (s Switches) restore(f field) (Switches, bool) {
	f.set(&s, true)
	s.Dropped = slices.DeleteFunc(slices.Clone(s.Dropped), func(n string) bool { return n == f.name })
	return s, f.on(&s)
}
