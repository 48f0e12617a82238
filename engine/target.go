package engine

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Target is a server and how to get in. The zero value of each field but URL
// means "none". It holds secrets: print it with String, store none of it.
type Target struct {
	URL        string            // base, without /v1, query, or trailing slash
	MetricsURL string            `json:"-"` // may carry credentials; "": URL + /metrics
	Query      string            `json:"-"` // raw query of every request, where a key may stand
	User       *url.Userinfo     `json:"-"` // Basic authentication, unless Key is set
	Key        string            `json:"-"` // Bearer token
	Header     http.Header       `json:"-"` // sent with every request; its Authorization wins
	TLS        *tls.Config       `json:"-"`
	Transport  http.RoundTripper `json:"-"` // nil: a transport of its own for each call
}

// ParseURL takes a server's address apart. A path is kept, /v1 at its end is
// dropped. User info and query become credentials of the Target and are not
// part of its URL. Errors do not repeat the address, which may hold a secret.
func ParseURL(raw string) (Target, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return Target{}, errors.New("the address of a server starts with http:// or https://, for example http://127.0.0.1:8000")
	}
	if u.Hostname() == "" {
		return Target{}, fmt.Errorf("the address %s:// names no host", u.Scheme)
	}
	if u.Fragment != "" {
		return Target{}, fmt.Errorf("the address of %s has a #fragment, which no server ever sees", u.Host)
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	for _, end := range []string{"/v1/chat/completions", "/v1/completions", "/v1/models"} {
		if strings.HasSuffix(path, end) {
			return Target{}, fmt.Errorf("the address of %s ends in %s: give the base only", u.Host, end)
		}
	}
	path = strings.TrimRight(strings.TrimSuffix(path, "/v1"), "/")
	return Target{
		URL:   u.Scheme + "://" + u.Host + path,
		Query: u.RawQuery,
		User:  u.User,
	}, nil
}

// String is the address without any credential.
func (t *Target) String() string { return t.URL }

// GoString keeps %#v from printing the credentials.
func (t *Target) GoString() string { return fmt.Sprintf("engine.Target{URL:%q}", t.URL) }

// RequestURI is the request target of a path such as /v1/models: the base's own
// path in front, the query of the address behind. It may hold a secret.
func (t *Target) RequestURI(path string) string {
	rest := t.URL[strings.Index(t.URL, "://")+3:]
	base := ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		base = rest[i:]
	}
	return base + t.withQuery(path)
}

// withQuery appends the address's query to a path, which may have one already.
func (t *Target) withQuery(path string) string {
	switch {
	case t.Query == "":
		return path
	case strings.Contains(path, "?"):
		return path + "&" + t.Query
	}
	return path + "?" + t.Query
}

// Headers returns a copy of the headers of a request, credentials included.
func (t *Target) Headers() http.Header {
	h := t.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Authorization") == "" {
		if t.Key != "" {
			h.Set("Authorization", "Bearer "+t.Key)
		} else if t.User != nil {
			h.Set("Authorization", "Basic "+basic(t.User))
		}
	}
	return h
}

func basic(u *url.Userinfo) string {
	password, _ := u.Password()
	return base64.StdEncoding.EncodeToString([]byte(u.Username() + ":" + password))
}

// metricsURL is where the metrics are, and whether that is the target's own
// host: credentials go nowhere else.
func (t *Target) metricsURL() (address string, own bool, err error) {
	if t.MetricsURL == "" {
		return t.URL + t.withQuery("/metrics"), true, nil
	}
	u, err := url.Parse(t.MetricsURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", false, errors.New("the address of the engine's metrics is not an http:// or https:// URL")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/metrics"
	}
	home, err := url.Parse(t.URL)
	return u.String(), err == nil && home.Scheme == u.Scheme && home.Host == u.Host, nil
}

// Redactor returns a redactor that knows this target's credentials.
func (t *Target) Redactor() *Redactor {
	secrets := []string{t.Key}
	if t.User != nil {
		password, _ := t.User.Password()
		secrets = append(secrets, password, basic(t.User), t.User.String())
		if password == "" { // http://TOKEN@host
			secrets = append(secrets, t.User.Username())
		}
	}
	secrets = append(secrets, querySecrets(t.Query)...)
	if u, err := url.Parse(t.MetricsURL); err == nil {
		if u.User != nil {
			password, _ := u.User.Password()
			secrets = append(secrets, password, u.User.String())
		}
		secrets = append(secrets, querySecrets(u.RawQuery)...)
	}
	for name, values := range t.Header {
		if !SecretHeader(name) {
			continue
		}
		for _, v := range values {
			secrets = append(secrets, v)
			if i := strings.IndexByte(v, ' '); i > 0 { // "Bearer TOKEN"
				secrets = append(secrets, v[i+1:])
			}
		}
	}
	return NewRedactor(secrets...)
}

// querySecrets returns the values of the parameters of a query that are named
// like a credential, escaped and not.
func querySecrets(query string) []string {
	var out []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if !SecretParam(name) {
			continue
		}
		out = append(out, value)
		if plain, err := url.QueryUnescape(value); err == nil && !slices.Contains(out, plain) {
			out = append(out, plain)
		}
	}
	return out
}
