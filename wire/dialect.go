package wire

import "bytes"

// ForPath returns the dialect that a request path speaks, by the path's end;
// a query is ignored. Paths that are not known give Unknown.
func ForPath(path []byte) Dialect {
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	switch {
	case bytes.HasSuffix(path, []byte("/chat/completions")):
		return Chat
	case bytes.HasSuffix(path, []byte("/completions")):
		return Completions
	}
	return Unknown
}

// String returns the word used in records: chat, completions, unknown.
func (d Dialect) String() string {
	switch d {
	case Chat:
		return "chat"
	case Completions:
		return "completions"
	}
	return "unknown"
}
