package report

import "regexp"

// redacted stands where a launch command or a note held a secret.
const redacted = "<redacted>"

// A report is made to be sent to others, and a launch command is pasted into it
// with whatever stood on its line. The shapes are --api-key X, --hf-token=X,
// HF_TOKEN=X, "api_key": "X", Authorization: Bearer X, and keys that look like one.
var secretShapes = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`(?i)((?:^|\s)--?[a-z0-9-]*(?:key|token|secret|password|passwd)(?:[ =]+))("[^"]*"|'[^']*'|[^\s"']+)`), "${1}" + redacted},
	{regexp.MustCompile(`(?i)(\b[a-z0-9_]*(?:key|token|secret|password|passwd)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s"',}]+)`), "${1}" + redacted},
	{regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`), "${1}" + redacted},
	{regexp.MustCompile(`\b(?:sk|pk|gsk|xai|nvapi|hf|ghp|rk)[-_][A-Za-z0-9_-]{8,}`), redacted},
	{regexp.MustCompile(`(://)[^/\s@"']+@`), "${1}" + redacted + "@"},
}

// redact removes what looks like a secret from text that a user wrote.
func redact(s string) string {
	for _, shape := range secretShapes {
		s = shape.re.ReplaceAllString(s, shape.by)
	}
	return s
}
