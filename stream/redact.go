package stream

import "regexp"

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
