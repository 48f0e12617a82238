package engine

// Kind names an inference engine.
type Kind string

const (
	Unknown  Kind = "unknown"
	VLLM     Kind = "vllm"
	SGLang   Kind = "sglang"
	LlamaCPP Kind = "llamacpp"
)

// Fact is one thing known of a server and where it came from, for example
// {"kv_tokens", "1553140", "/metrics vllm:cache_config_info kv_cache_size_tokens"}.
type Fact struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Info is what a server is. A count that could not be learned is 0; Facts says
// where each known value came from. Secrets are never kept.
type Info struct {
	Kind        Kind     `json:"kind"`
	Version     string   `json:"version"`
	Models      []string `json:"models"` // served names, LoRA adapters included
	Model       string   `json:"model"`  // the one chosen
	MaxModelLen int      `json:"max_model_len"`
	KVTokens    int      `json:"kv_tokens"`
	MaxRunning  int      `json:"max_running"`
	SlotContext int      `json:"slot_context"` // llama.cpp: n_ctx of one slot
	HasMetrics  bool     `json:"has_metrics"`  // it tells how many requests run
	HasTokenize bool     `json:"has_tokenize"`
	CanAbort    bool     `json:"can_abort"` // POST /abort_request
	Facts       []Fact   `json:"facts"`
}

// Fact returns a fact by its name, the zero Fact when it is not known.
func (i *Info) Fact(name string) Fact {
	for _, f := range i.Facts {
		if f.Name == name {
			return f
		}
	}
	return Fact{}
}

// Sample is one reading of a server's own counters. A value the server does
// not tell is NaN.
type Sample struct {
	Running          float64
	Waiting          float64
	KVUsage          float64 // 0..1
	PromptTokens     float64 // counter
	GenerationTokens float64 // counter
	Preemptions      float64 // counter
	DraftTokens      float64 // counter, speculative decoding
	AcceptedTokens   float64 // counter
	AcceptRate       float64 // 0..1, gauge; for engines that do not count (SGLang)
}
