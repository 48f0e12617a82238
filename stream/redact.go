package stream

import "regexp"

// secrets are the shapes of keys that servers echo in their errors.
var secrets = regexp.MustCompile(`(?i)\b(bearer\s+)[^\s"',;]+|\b(?:sk|pk|hf|gsk|xai|nvapi|key|token)[-_][A-Za-z0-9*._-]{4,}|([?&](?:api[-_]?)?key=)[^\s&"']+|(//)[^/\s@]+@`)

// Redact replaces what looks like a key, a bearer token or the userinfo of a
// URL by three dots.
func Redact(s string) string {
	return secrets.ReplaceAllString(s, "$1$2$3…")
}
