package metrics

import (
	"bytes"
	"strings"
	"sync/atomic"
)

// Other is the label value of everything that is not on a list.
const Other = "other"

// Routes are the values of the label "route"; the first entry whose path ends a
// request's path names it.
var routes = []struct{ suffix, route string }{
	{"/chat/completions", "chat"},
	{"/completions", "completions"},
	{"/responses", "responses"},
	{"/messages", "messages"},
	{"/embeddings", "embeddings"},
	{"/rerank", "rerank"},
	{"/score", "score"},
	{"/models", "models"},
	{"/tokenize", "tokenize"},
	{"/detokenize", "detokenize"},
	{"/api/chat", "ollama_chat"},
	{"/api/generate", "ollama_generate"},
	{"/generate", "generate"},
	{"/abort_request", "abort"},
	{"/health", "health"},
	{"/metrics", "metrics"},
}

// Route names the route of a request target; the query does not matter.
func Route(target []byte) string {
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		target = target[:i]
	}
	for i := range routes {
		s := routes[i].suffix
		if len(target) >= len(s) && string(target[len(target)-len(s):]) == s {
			return routes[i].route
		}
	}
	return Other
}

// Channel folds a record's channel into a label value: tool:0, tool:1, … are
// "tool".
func Channel(channel string) string {
	if strings.HasPrefix(channel, "tool:") {
		return "tool"
	}
	switch channel {
	case "content", "reasoning", "refusal":
		return channel
	}
	return Other
}

// reasons are the values of the label "reason" of streamgauge_no_first_token_total
// and streamgauge_blind_streams_total.
var reasons = list(
	// failed(reason) of a record
	"connect", "ttft_timeout", "stall", "reset", "in_band", "http_status", "empty", "drain",
	// other endings
	"truncated", "cancelled", "client_gone", "loop", "completed", "header_wait", "closed", "pool_full",
	// blind
	"dialect", "html", "encoded", "event_size", "panic",
)

var verdicts = list("suspected", "confirmed", "whitespace", "near", "counter", "engine")

var ends = list("completed", "truncated", "failed", "cancelled", "client_gone", "loop", "plain")

// Reason bounds a machine-readable cause to the known ones.
func Reason(s string) string { return bound(reasons, s) }

func bound(known map[string]string, s string) string {
	if v, ok := known[s]; ok {
		return v
	}
	return Other
}

func list(values ...string) map[string]string {
	m := make(map[string]string, len(values))
	for _, v := range values {
		m[v] = v
	}
	return m
}

// models is the list of served models. It is replaced as a whole, so readers
// take no lock.
type models struct {
	known atomic.Pointer[map[string]string]
}

// maxModels bounds the label; an engine with more adapters than this has the
// rest counted as "other".
const maxModels = 1000

// maxModelName is the longest name that becomes a label value.
const maxModelName = 256

func (m *models) set(names []string) {
	known := make(map[string]string, len(names))
	for _, n := range names {
		if n == "" || len(n) > maxModelName || len(known) == maxModels {
			continue
		}
		known[n] = n
	}
	m.known.Store(&known)
}

// label gives the name itself when it is served, else Other.
func (m *models) label(name []byte) string {
	if known := m.known.Load(); known != nil {
		if v, ok := (*known)[string(name)]; ok {
			return v
		}
	}
	return Other
}
