package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestRedactorShapes(t *testing.T) {
	r := NewRedactor("hunter2-hunter2", "abc", "", "x")
	for _, tc := range []struct{ name, in, want string }{
		{"known", "key hunter2-hunter2 refused", "key [redacted] refused"},
		{"known, masked by the server", "Incorrect API key provided: hun***********er2.", "Incorrect API key provided: [redacted]"},
		{"known, masked with dots", `bad key "hunter...ter2"`, `bad key "[redacted]"`},
		{"short ones too", "abc", "[redacted]"},
		{"one letter is no secret", "box", "box"},
		{"R25: somebody's key", `{"error":"Incorrect API key provided: sk-...abcd"}`, `{"error":"Incorrect API key provided: [redacted]"}`},
		{"a whole one", "sk-proj-0123_XYZ, please", "[redacted], please"},
		{"no key: risk-free task-force", "risk-free task-force", "risk-free task-force"},
		{"bearer", "got Bearer 0123456789abcdef0", "got Bearer [redacted]"},
		{"a sentence about bearers", "Bearer token missing", "Bearer token missing"},
		{"user info", "https://me:pw@h/v1", "https://[redacted]@h/v1"},
		{"query", "GET /v1?a=1&api_key=zzz&b=2 and ?key=yyy", "GET /v1?a=1&api_key=[redacted]&b=2 and ?key=[redacted]"},
		{"prefixed names", "?x-goog-api-key=zzz&access_token=yyy", "?x-goog-api-key=[redacted]&access_token=[redacted]"},
		{"max_tokens is no token", "?max_tokens=5&monkey=1", "?max_tokens=5&monkey=1"},
	} {
		if got := r.String(tc.in); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	var none *Redactor
	if got, want := none.String("sk-abcdef hunter2-hunter2"), "[redacted] hunter2-hunter2"; got != want {
		t.Errorf("nil redactor: %q, want %q", got, want)
	}
}

// R25: a server that throws every secret it gets back at us, in every answer.
func TestR25NoSecretComesOut(t *testing.T) {
	const secret = "s3cr3t/with+chars"
	echo := func(status int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":%q},"version":%q,"build_info":%q,"max_total_num_tokens":1}`,
				"you sent "+r.URL.String()+" "+fmt.Sprint(r.Header)+" sk-...abcd", r.Header.Get("Authorization"), r.URL.RawQuery)
		}
	}
	for _, where := range []struct {
		name string
		set  func(*Target)
	}{
		{"key", func(t *Target) { t.Key = secret }},
		{"user info", func(t *Target) { t.User = url.UserPassword("me", secret) }},
		{"user info without a password", func(t *Target) { t.User = url.User(secret) }},
		{"query", func(t *Target) { t.Query = url.Values{"key": {secret}}.Encode() }},
		{"header", func(t *Target) { t.Header = http.Header{"X-Api-Key": {secret}} }},
		{"Authorization header", func(t *Target) { t.Header = http.Header{"Authorization": {"Bearer " + secret}} }},
		{"metrics address", func(t *Target) {
			t.MetricsURL = strings.Replace(t.URL, "http://", "http://me:"+url.QueryEscape(secret)+"@", 1) + "/metrics?token=" + url.QueryEscape(secret)
		}},
	} {
		var shown []string
		show := func(what string, v any) {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			shown = append(shown, what+": "+string(b), fmt.Sprintf("%v %+v %#v", v, v, v))
		}
		for _, status := range []int{200, 400, 401, 404, 500, 503} {
			r := routes{"GET /v1/models": echo(status), "GET /metrics": echo(status)}
			if status == 200 {
				r = routes{"GET /v1/models": models(`{"id":"m","owned_by":"sglang"}`), "GET /metrics": echo(500)}
			}
			for _, path := range []string{"GET /server_info", "GET /version", "GET /props", "POST /tokenize", "POST /abort_request", "POST /v1/chat/completions"} {
				r[path] = echo(status)
			}
			target := serve(t, r)
			where.set(target)
			info, err := Probe(t.Context(), target, "")
			show("info", info)
			shown = append(shown, fmt.Sprint(err))
			if status != 200 && where.name != "metrics address" && err == nil {
				t.Errorf("%s, %d: no error", where.name, status)
			}
			_, err = Negotiate(t.Context(), target, Info{Kind: VLLM, Model: "m"}, Defaults(VLLM, true), BodyInput{})
			shown = append(shown, fmt.Sprint(err))
			_, err = CountTokens(t.Context(), target, Info{Kind: VLLM, HasTokenize: true}, Prompt{Text: "a"})
			shown = append(shown, fmt.Sprint(err), fmt.Sprint(Abort(t.Context(), target, "r1")))
			sc := NewScraper(target, VLLM)
			_, err = sc.Scrape(t.Context())
			sc.Close()
			shown = append(shown, fmt.Sprint(err))
			show("target", target)
		}
		nobody := &Target{URL: "http://127.0.0.1:1"} // nothing listens on tcpmux
		where.set(nobody)
		_, err := Probe(t.Context(), nobody, "")
		shown = append(shown, fmt.Sprint(err))
		for _, s := range shown {
			for _, form := range []string{secret, url.QueryEscape(secret), "sk-...abcd", basic(url.UserPassword("me", secret))} {
				if strings.Contains(s, form) {
					t.Errorf("%s: %q comes out in %s", where.name, form, s)
				}
			}
		}
	}
}

func TestParseURL(t *testing.T) {
	for _, tc := range []struct {
		in, url, uri string // url "" : an error
		auth         string
	}{
		{"http://h:1", "http://h:1", "/v1/models", ""},
		{"http://h:1/", "http://h:1", "/v1/models", ""},
		{"http://h:1/v1", "http://h:1", "/v1/models", ""},
		{"https://h/v1/", "https://h", "/v1/models", ""},
		{"http://h/a/b/v1", "http://h/a/b", "/a/b/v1/models", ""},
		{"http://h/a%2Fb", "http://h/a%2Fb", "/a%2Fb/v1/models", ""},
		{" http://[::1]:8000/v1 ", "http://[::1]:8000", "/v1/models", ""},
		{"http://me:pw@h/v1?key=k", "http://h", "/v1/models?key=k", "Basic bWU6cHc="},
		{"http://h/v11", "http://h/v11", "/v11/v1/models", ""},
		{"h:8000", "", "", ""},
		{"127.0.0.1:8000", "", "", ""},
		{"ftp://h", "", "", ""},
		{"http://", "", "", ""},
		{"http://:80", "", "", ""},
		{"", "", "", ""},
		{"http://h/#x", "", "", ""},
		{"http://h/v1/chat/completions", "", "", ""},
	} {
		got, err := ParseURL(tc.in)
		if tc.url == "" {
			if err == nil {
				t.Errorf("%q = %s, want an error", tc.in, got.URL)
			}
			continue
		}
		if err != nil || got.URL != tc.url || got.RequestURI("/v1/models") != tc.uri || got.Headers().Get("Authorization") != tc.auth {
			t.Errorf("%q = %s, %s, %q, %v, want %s, %s, %q", tc.in, got.URL, got.RequestURI("/v1/models"), got.Headers().Get("Authorization"), err, tc.url, tc.uri, tc.auth)
		}
	}
}

func TestHeadersOwnAuthorizationWins(t *testing.T) {
	target := Target{URL: "http://h", Key: "k", User: url.UserPassword("a", "b")}
	if got, want := target.Headers().Get("Authorization"), "Bearer k"; got != want {
		t.Errorf("key and user info: %q, want %q", got, want)
	}
	target.Header = http.Header{"Authorization": {"Token t"}}
	h := target.Headers()
	if got, want := h.Get("Authorization"), "Token t"; got != want {
		t.Errorf("header given: %q, want %q", got, want)
	}
	h.Set("X", "y")
	if target.Header.Get("X") != "" {
		t.Error("Headers returned the target's own map")
	}
}
