package engine

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// Each thing that may stand at an address is one sentence.
func TestProbeErrors(t *testing.T) {
	redirect := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://elsewhere:1/v1/models?key=hunter2")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	huge := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, maxAnswer+1))
	}
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		key    string
		kind   ErrorKind
		want   string // after the address
	}{
		{"no key", says(401, `{"error":{"message":"missing Authorization header"}}`), "", Unauthorized,
			"/v1/models needs a key: give one with --api-key-file or STREAMGAUGE_API_KEY (401: missing Authorization header)"},
		{"wrong key", says(403, ``), "a-wrong-key", Unauthorized, "/v1/models refused the key (403)"},
		{"another server", says(404, `{"detail":"Not Found"}`), "", NotOpenAI, "/v1/models answered 404: no OpenAI-compatible server is at this address"},
		{"a page", says(200, "\n<!doctype html><title>Grafana</title>"), "", NotOpenAI, "/v1/models answered with an HTML page: no OpenAI-compatible server is at this address"},
		{"other JSON", says(200, `{"status":"ok"}`), "", NotOpenAI, "/v1/models does not list models: no OpenAI-compatible server is at this address"},
		{"not JSON", says(200, `ok`), "", NotOpenAI, "/v1/models does not list models: no OpenAI-compatible server is at this address"},
		{"llama.cpp still loads", says(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`), "", Loading, "/v1/models is not ready yet (503: Loading model)"},
		{"overloaded", says(503, `{"error":{"message":"too many requests"}}`), "", BadStatus, "/v1/models answered 503: too many requests"},
		{"a gateway's page", says(502, `<html>Bad Gateway</html>`), "", BadStatus, "/v1/models answered 502"},
		{"moved", redirect, "", Redirect, "/v1/models redirects to http://elsewhere:1/v1/models, which is not followed: give that address instead"},
		{"endless", huge, "", BadAnswer, "/v1/models answered with more than 16 MiB"},
		{"words that would write on the terminal", says(500, `{"error":{"message":"a\u001b]0;title\u0007 b\u009b2J"}}`), "", BadStatus, "/v1/models answered 500: a ]0;title b 2J"},
		{"long-winded", says(500, strings.Repeat("x ", 5000)), "", BadStatus, "/v1/models answered 500: " + strings.Repeat("x ", 150) + "…"},
	} {
		target := serve(t, routes{"GET /v1/models": tc.answer})
		target.Key = tc.key
		_, err := Probe(t.Context(), target, "")
		if want := target.URL + tc.want; err == nil || err.Error() != want || !Is(err, tc.kind) {
			t.Errorf("%s:\n got %v\nwant %s (%s)", tc.name, err, want, tc.kind)
		}
	}
}

func TestUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + ln.Addr().String()
	ln.Close()
	_, err = Probe(t.Context(), &Target{URL: closed}, "")
	if want := "cannot reach " + closed + "/v1/models: connection refused"; err == nil || err.Error() != want || !Is(err, Unreachable) {
		t.Errorf("nobody listens: %v, want %q", err, want)
	}

	cut := serve(t, routes{"GET /v1/models": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte(`{"data":[`))
	}})
	if _, err = Probe(t.Context(), cut, ""); !Is(err, Unreachable) {
		t.Errorf("answer cut short: %v, want %s", err, Unreachable)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = Probe(ctx, &Target{URL: closed}, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("our own cancellation: %v, want %v", err, context.Canceled)
	}
}

// llama.cpp announces keep-alive and closes all the same. A POST that met such a
// connection used to fail, and the server then counted as one without tokenizer.
func TestPostOnAClosedConnection(t *testing.T) {
	c := serve(t, realSGLang).open()
	defer c.close()
	for i := range 100 {
		if _, err := c.get(t.Context(), "/v1/loads"); err != nil {
			t.Fatalf("%d: GET: %v", i, err)
		}
		if _, err := c.post(t.Context(), "/tokenize", []byte(`{"prompt":"a"}`)); err != nil {
			t.Fatalf("%d: POST: %v", i, err)
		}
	}
}

// roundTrip is a network of one function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server that takes the connection and says nothing costs 5 s, not for ever.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &Target{URL: "http://silent:1", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		_, err := Probe(t.Context(), silent, "")
		if want := "cannot reach http://silent:1/v1/models: no answer in time"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	})
}

func TestTLSErrors(t *testing.T) {
	secure := httptest.NewUnstartedServer(realVLLM)
	secure.Config.ErrorLog = quiet()
	secure.StartTLS()
	defer secure.Close()
	plain := serve(t, realVLLM)
	for _, tc := range []struct {
		name   string
		target *Target
		want   string
	}{
		{"unknown authority", &Target{URL: secure.URL}, "the certificate of " + secure.URL + "/v1/models is signed by an unknown authority: name it with --ca, or use --insecure"},
		{"another name", &Target{URL: strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), TLS: secure.Client().Transport.(*http.Transport).TLSClientConfig},
			"the certificate of " + strings.Replace(secure.URL, "127.0.0.1", "localhost", 1) + "/v1/models is for another name: "},
		{"no TLS there", &Target{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, strings.Replace(plain.URL, "http:", "https:", 1) + "/v1/models does not speak TLS: try http://"},
		{"TLS there", &Target{URL: strings.Replace(secure.URL, "https:", "http:", 1)}, strings.Replace(secure.URL, "https:", "http:", 1) + "/v1/models speaks TLS: try https://"},
	} {
		_, err := Probe(t.Context(), tc.target, "")
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || !Is(err, BadTLS) {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
	}
	trusted := &Target{URL: secure.URL, TLS: secure.Client().Transport.(*http.Transport).TLSClientConfig}
	if info, err := Probe(t.Context(), trusted, ""); err != nil || info.Kind != VLLM {
		t.Errorf("with its authority: %s, %v", info.Kind, err)
	}
}

func TestErrorText(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"vLLM", string(captured(t, "vllm/err-wrong-model")), "The model `no-such-model` does not exist. Valid aliases: tiny."},
		{"SGLang", string(captured(t, "sglang/err-context-overflow-stream")), "The input (18002 tokens) is longer than the model's context length (8192 tokens)."},
		{"llama.cpp", string(captured(t, "llamacpp/err-no-messages")), "'messages' is required"},
		{"FastAPI", string(captured(t, "vllm/err-unknown-path")), "Not Found"},
		{"pydantic", `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options","x"],"msg":"Extra inputs are not permitted"},{"loc":["body",3],"msg":"no"}]}`,
			"body.stream_options.x: Extra inputs are not permitted; body.3: no"},
		{"a string", `{"error":"boom","error_type":"generation"}`, "boom"},
		{"text", " Internal Server Error\n", "Internal Server Error"},
		{"a page", "<html>", ""},
		{"nothing", "", ""},
		{"JSON without a message", `{"a":1}`, ""},
	} {
		if got := ErrorText([]byte(tc.body)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// R14: a prompt over the model's limit is told from a request that is wrong.
func TestR14ContextOverflow(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		body   []byte
		want   bool
	}{
		{"R14's words", 400, []byte(`{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 4122 tokens"}}`), true},
		{"vLLM", 400, captured(t, "vllm/err-context-overflow-stream"), true},
		{"vLLM, max_tokens alone", 400, captured(t, "vllm/err-maxtokens-too-big"), true},
		{"SGLang", 400, captured(t, "sglang/err-context-overflow-stream"), true},
		{"llama.cpp", 400, captured(t, "llamacpp/err-context-overflow-stream"), true},
		{"a wrong request", 400, captured(t, "llamacpp/err-no-messages"), false},
		{"a wrong model", 404, captured(t, "vllm/err-wrong-model"), false},
		{"the same words in a crash", 500, []byte(`maximum context length`), false},
		{"a reply that speaks of it", 200, []byte(`maximum context length`), false},
	} {
		if got := ContextOverflow(tc.status, tc.body); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A port where something else listens: its first bytes are an answer to no
// request of HTTP.
func TestNoHTTPServer(t *testing.T) {
	for _, tc := range []struct {
		name, first string
		kind        ErrorKind
		want        string // after the address
	}{
		{"SSH", "SSH-2.0-OpenSSH_9.6\r\n", Unreachable, " does not speak HTTP: another kind of server is at this address"},
		{"a TLS alert", "\x15\x03\x01\x00\x02\x02\x46", BadTLS, " speaks TLS: try https://"},
		{"no answer", "", Unreachable, " closed the connection without a whole answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					if _, err := theirs.Read(make([]byte, 4096)); err == nil {
						_, _ = theirs.Write([]byte(tc.first))
					}
				}()
				return ours, nil
			}}
			defer transport.CloseIdleConnections()
			_, err := Probe(t.Context(), &Target{URL: "http://other.test:22", Transport: transport}, "")
			if want := "http://other.test:22/v1/models" + tc.want; err == nil || err.Error() != want || !Is(err, tc.kind) {
				t.Errorf("got %v, want %s (%s)", err, want, tc.kind)
			}
		})
	}
}
