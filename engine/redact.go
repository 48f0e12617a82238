package engine

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Redacted stands where a secret stood.
const Redacted = "[redacted]"

// Redactor removes secrets from text that is going to be shown or kept. The nil
// Redactor removes what looks like a secret whoever owns it.
type Redactor struct {
	secrets []string         // longest first, so that none hides inside another
	masked  []*regexp.Regexp // "sec***xyz", the way some servers quote a key
}

// Shapes of secrets that are not known beforehand: a server may quote a key that
// is not ours.
var (
	keyShape    = regexp.MustCompile(`\b(?:sk|pk|gsk|xai|nvapi|hf|ghp|rk)[-_][^\s"'` + "`" + `<>,;)}\]\\]+`)
	bearerShape = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=*-]{16,}`)
	userShape   = regexp.MustCompile(`(://)[^/\s@"'<>?#]+@`)
	paramShape  = regexp.MustCompile(`(?i)([?&](?:` + paramNames + `)=)[^&\s"'<>#]+`)
)

const paramNames = `(?:[a-z0-9_-]*[-_])?(?:key|apikey|token|secret|password|passwd|sig|signature|auth|code)`

var (
	paramName  = regexp.MustCompile(`(?i)^` + paramNames + `$`)
	headerName = regexp.MustCompile(`(?i)auth|key|token|secret|cookie|password|session`)
)

// SecretHeader reports whether a header of that name may carry a credential.
func SecretHeader(name string) bool { return headerName.MatchString(name) }

// SecretParam reports whether a query parameter of that name may carry one.
func SecretParam(name string) bool { return paramName.MatchString(name) }

// minSecret is the shortest text that is removed as a known secret: removing
// every "a" would protect nobody.
const minSecret = 3

// longSecret is the length from which a secret is unlikely to be part of another.
const longSecret = 8

// NewRedactor returns a redactor for these secrets; empty ones are skipped.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if len(s) < minSecret || slices.Contains(r.secrets, s) {
			continue
		}
		r.secrets = append(r.secrets, s)
		if len(s) >= longSecret {
			r.masked = append(r.masked, regexp.MustCompile(regexp.QuoteMeta(s[:3])+`[^\s"']{0,8}?(?:\*{2,}|\.{2,}|…|•+|x{4,})[^\s"',]*`))
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return r
}

// String returns s without secrets. Short ones go last: inside a longer secret
// they would break its shape, and its ends would stay.
func (r *Redactor) String(s string) string {
	s = r.replace(s, func(secret string) bool { return len(secret) >= longSecret })
	if r != nil {
		for _, m := range r.masked {
			s = m.ReplaceAllString(s, Redacted)
		}
	}
	s = keyShape.ReplaceAllString(s, Redacted)
	s = bearerShape.ReplaceAllString(s, "${1}${2}"+Redacted)
	s = userShape.ReplaceAllString(s, "${1}"+Redacted+"@")
	s = paramShape.ReplaceAllString(s, "${1}"+Redacted)
	return r.replace(s, func(secret string) bool { return len(secret) < longSecret })
}

func (r *Redactor) replace(s string, which func(secret string) bool) string {
	if r == nil {
		return s
	}
	for _, secret := range r.secrets {
		if which(secret) {
			s = strings.ReplaceAll(s, secret, Redacted)
		}
	}
	return s
}
