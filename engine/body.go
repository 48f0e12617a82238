package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Endpoints of a request.
const (
	Chat        = "chat"        // /v1/chat/completions
	Completions = "completions" // /v1/completions
)

// EndpointPath is the path of an endpoint, below the base of the target.
func EndpointPath(endpoint string) string {
	if endpoint == Completions {
		return "/v1/completions"
	}
	return "/v1/chat/completions"
}

// BodyInput is one request. Nil and zero fields are not sent.
type BodyInput struct {
	Endpoint        string // Chat ("" too) or Completions
	Model           string
	Prompt          string // the text of the user's message, or the prompt itself
	MaxTokens       int
	Temperature     *float64
	TopP            *float64
	Seed            *int64
	Thinking        *bool          // chat_template_kwargs enable_thinking and thinking
	ReasoningEffort string         // reasoning_effort
	Cold            bool           // ask not to use the prompt cache, where the server can be asked
	RID             string         // sent as rid where the switches say so
	Extra           map[string]any // merged in last; objects are merged, anything else replaces
	NoStream        bool           // one JSON answer instead of a stream: to count, never to measure
}

// fixed are the keys that Extra may not touch: what is measured would no longer
// be what the run's header says.
var fixed = []string{"model", "messages", "prompt", "stream"}

// CheckExtra reports the keys of an extra body that may not be set.
func CheckExtra(extra map[string]any) error {
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		if slices.Contains(fixed, k) {
			return fmt.Errorf("the extra body may not set %q: the measurement itself does", k)
		}
	}
	return nil
}

// member is one key of an object whose order matters.
type member struct {
	key   string
	value any
}

// Body returns the JSON of a request. The same input gives the same bytes: keys
// stand in a fixed order, those of Extra behind them in alphabetical order.
func (s Switches) Body(in BodyInput) ([]byte, error) {
	if err := CheckExtra(in.Extra); err != nil {
		return nil, err
	}
	ms := []member{{"model", in.Model}}
	if in.Endpoint == Completions {
		ms = append(ms, member{"prompt", in.Prompt})
	} else {
		ms = append(ms, member{"messages", []map[string]any{{"role": "user", "content": in.Prompt}}})
	}
	add := func(ok bool, key string, value any) {
		if ok {
			ms = append(ms, member{key, value})
		}
	}
	add(true, "stream", !in.NoStream)
	if s.IncludeUsage && !in.NoStream {
		options := map[string]any{"include_usage": true}
		if s.ContinuousUsage {
			options["continuous_usage_stats"] = true
		}
		add(true, "stream_options", options)
	}
	add(in.MaxTokens > 0, s.maxTokensKey(in.Endpoint), in.MaxTokens)
	add(s.MinTokens && in.MaxTokens > 0, "min_tokens", in.MaxTokens)
	add(s.IgnoreEOS, "ignore_eos", true)
	add(in.Temperature != nil, "temperature", in.Temperature)
	add(in.TopP != nil, "top_p", in.TopP)
	add(in.Seed != nil, "seed", in.Seed)
	add(s.TokenIDs && !in.NoStream, "return_token_ids", true)
	add(s.TimingsPerToken && !in.NoStream, "timings_per_token", true)
	add(s.ReturnProgress && !in.NoStream, "return_progress", true)
	add(s.CachePrompt && in.Cold, "cache_prompt", false)
	add(in.Thinking != nil, "chat_template_kwargs", thinking(in.Thinking))
	add(in.ReasoningEffort != "", "reasoning_effort", in.ReasoningEffort)
	add(s.RID && in.RID != "", "rid", in.RID)
	for _, k := range slices.Sorted(maps.Keys(in.Extra)) {
		ms = merge(ms, k, in.Extra[k])
	}
	return object(ms)
}

// maxTokensKey is the key for an endpoint: the legacy one knows a single name.
func (s Switches) maxTokensKey(endpoint string) string {
	if endpoint == Completions || s.MaxTokensKey == "" {
		return maxTokensKey
	}
	return s.MaxTokensKey
}

// thinking sets both names in use: enable_thinking (Qwen, GLM, Gemma) and
// thinking (DeepSeek, Kimi). Templates ignore names that they do not use.
func thinking(on *bool) map[string]any {
	return map[string]any{"enable_thinking": on, "thinking": on}
}

func merge(ms []member, key string, value any) []member {
	i := slices.IndexFunc(ms, func(m member) bool { return m.key == key })
	if i < 0 {
		return append(ms, member{key, value})
	}
	ms[i].value = mergeValue(ms[i].value, value)
	return ms
}

func mergeValue(old, value any) any {
	a, okA := old.(map[string]any)
	b, okB := value.(map[string]any)
	if !okA || !okB {
		return value
	}
	out := maps.Clone(a)
	for k, v := range b {
		out[k] = mergeValue(a[k], v)
	}
	return out
}

// object writes members in their order. Text is not escaped for HTML: a prompt
// should be the bytes it was made as.
func object(ms []member) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for i, m := range ms {
		buf.WriteByte("{,"[min(i, 1)])
		buf.WriteString(quote(m.key))
		buf.WriteByte(':')
		if err := enc.Encode(m.value); err != nil {
			return nil, fmt.Errorf("request field %s: %w", m.key, err)
		}
		buf.Truncate(buf.Len() - 1) // Encode ends with a newline
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}
