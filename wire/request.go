package wire

import (
	"bytes"
	"encoding/json"
)

// RequestFacts reads what a proxy must know of a request body in dialect d: the
// model it names, whether it asks for a stream, and whether it asks for usage in
// that stream (stream_options.include_usage; only chat and completions must be
// asked). Ollama streams unless told not to. ok is false if body is not a JSON
// object. It scans the top level only: under a millisecond for a megabyte of
// prompt.
func RequestFacts(d Dialect, body []byte) (model string, stream, includeUsage, ok bool) {
	stream = d == Ollama
	ok = eachMember(body, func(key, value []byte) bool {
		switch string(key) {
		case "model":
			model = stringValue(value)
		case "stream":
			stream = string(value) == "true" || d == Ollama && string(value) == "null"
		case "stream_options":
			includeUsage = false
			eachMember(value, func(key, value []byte) bool {
				if string(key) == "include_usage" {
					includeUsage = string(value) == "true"
				}
				return true
			})
		}
		return true
	})
	return model, stream, includeUsage, ok
}

// stringValue returns the string that the JSON value v is, "" if it is none.
func stringValue(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
