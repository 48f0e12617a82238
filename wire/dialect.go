package wire

import "bytes"

// suffixes are the ends of paths and the dialects spoken there. Anthropic's has
// its version, since OpenAI's threads have messages too.
var suffixes = []struct {
	path    string
	dialect Dialect
}{
	{"/chat/completions", Chat},
	{"/completions", Completions},
	{"/v1/messages", Messages},
	{"/responses", Responses},
	{"/api/chat", Ollama},
	{"/api/generate", Ollama},
}

// ForPath returns the dialect that a request path speaks, by the path's end;
// a query is ignored. Paths that are not known give Unknown.
func ForPath(path []byte) Dialect {
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	for i := range suffixes {
		s := &suffixes[i]
		if len(path) >= len(s.path) && string(path[len(path)-len(s.path):]) == s.path {
			return s.dialect
		}
	}
	return Unknown
}

// String returns the word used in records: chat, completions, messages,
// responses, ollama, unknown.
func (d Dialect) String() string {
	switch d {
	case Chat:
		return "chat"
	case Completions:
		return "completions"
	case Messages:
		return "messages"
	case Responses:
		return "responses"
	case Ollama:
		return "ollama"
	}
	return "unknown"
}
