package stream

import (
	"regexp"
	"strings"
)

// secrets are the shapes of credentials that servers echo in their errors. A
// record is made without knowing the run's own; who knows them removes those
// from the text too (engine.Redactor).
var secrets = regexp.MustCompile(`(?i)\b(bearer\s+)[^\s"',;]+` +
	`|\b(basic\s+)[a-z0-9+/=_-]{16,}` +
	`|\b(?:sk|pk|rk|hf|gsk|ghp|xai|nvapi|key|token)[-_][a-z0-9*._-]{4,}` +
	`|([?&](?:[a-z0-9_-]*[-_])?(?:api)?(?:key|token|secret|password|passwd|sig|signature|auth|code)=)[^\s&"']+` +
	`|(//)[^/\s@]+@`)

// Redact replaces what looks like a key, a bearer token, a credential in a query
// or the user info of a URL by three dots.
func Redact(s string) string {
	return secrets.ReplaceAllString(s, "$1$2$3$4…")
}

// Redacted stands where a note held a secret.
const Redacted = "<redacted>"

// A launch command is pasted into a note with whatever stood on its line. The
// shapes are --api-key X, --hf-token=X, HF_TOKEN=X, "api_key": "X",
// Authorization: Bearer X, keys that look like one, and the user info of a URL.
var noteSecrets = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`(?i)((?:^|\s)--?[a-z0-9_-]*(?:key|token|secret|password|passwd)(?:[ =]+))("[^"]*"|'[^']*'|[^\s"']+)`), "${1}" + Redacted},
	{regexp.MustCompile(`(?i)(\b[a-z0-9_]*(?:key|token|secret|password|passwd)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s"',}]+)`), "${1}" + Redacted},
	{regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`), "${1}" + Redacted},
	{regexp.MustCompile(`\b(?:sk|pk|gsk|xai|nvapi|hf|ghp|rk)[-_][A-Za-z0-9_-]{8,}`), Redacted},
	{regexp.MustCompile(`(://)[^/\s@"']+@`), "${1}" + Redacted + "@"},
}

// secretName is the name of a note that is a secret as a whole.
var secretName = regexp.MustCompile(`(?i)(?:^|[-_. ])(?:api)?(?:key|token|secret|password|passwd)$`)

// RedactNote removes what looks like a secret from text that a user wrote, such
// as a launch command. Doing so again changes nothing.
func RedactNote(s string) string {
	for _, shape := range noteSecrets {
		s = shape.re.ReplaceAllString(s, shape.by)
	}
	return s
}

// RedactNotes returns a copy of notes, never nil, without what looks like a
// secret: in a value, or a value as a whole where the name says so.
func RedactNotes(notes map[string]string) map[string]string {
	out := make(map[string]string, len(notes))
	for name, value := range notes {
		if secretName.MatchString(strings.TrimSpace(name)) && value != "" {
			out[name] = Redacted
			continue
		}
		out[name] = RedactNote(value)
	}
	return out
}
