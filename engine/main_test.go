package engine

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// routes maps "GET /path" (query ignored) to what answers it: the name of a
// captured answer in testdata, without .http, or a handler.
type routes map[string]any

// serve answers by routes, and 404 as FastAPI words it elsewhere.
func serve(t testing.TB, r routes) *Target {
	t.Helper()
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	return &Target{URL: srv.URL}
}

func (r routes) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch h := r[req.Method+" "+req.URL.Path].(type) {
	case string:
		// Closing with an unread body would reset the connection.
		_, _ = io.Copy(io.Discard, req.Body)
		replay(w, h)
	case func(http.ResponseWriter, *http.Request):
		h(w, req)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"detail":"Not Found"}`)
	}
}

// replay writes a captured answer byte for byte and closes the connection.
func replay(w http.ResponseWriter, name string) {
	raw, err := os.ReadFile(filepath.Join("testdata", name+".http"))
	if err != nil {
		panic(err)
	}
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = conn.Write(raw) // the client may be gone
}

// says answers with a status and a body.
func says(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// captured is the body of a captured answer.
func captured(t testing.TB, name string) []byte {
	t.Helper()
	rec := httptest.NewServer(routes{"GET /": name})
	defer rec.Close()
	c := (&Target{URL: rec.URL}).open()
	defer c.close()
	a, err := c.get(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	return a.body
}

// with returns the routes plus others, which win.
func (r routes) with(more routes) routes {
	out := routes{}
	for k, v := range r {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// The real servers, as far as they were captured.
var (
	realVLLM = routes{
		"GET /v1/models":   "vllm/v1_models",
		"GET /version":     "vllm/version",
		"GET /server_info": "vllm/server_info",
		"GET /metrics":     "vllm/metrics",
		"POST /tokenize":   "vllm/tokenize",
	}
	realSGLang = routes{
		"GET /v1/models":   "sglang/v1_models",
		"GET /version":     "sglang/version",
		"GET /server_info": "sglang/server_info",
		"GET /v1/loads":    "sglang/v1_loads",
		"GET /metrics":     "sglang/metrics",
		"POST /tokenize":   "sglang/tokenize",
	}
	realLlamaCPP = routes{
		"GET /v1/models": "llamacpp/v1_models",
		"GET /version":   "llamacpp/version",
		"GET /props":     "llamacpp/props",
		"GET /slots":     "llamacpp/slots",
		"GET /metrics":   "llamacpp/metrics",
		"POST /tokenize": "llamacpp/tokenize",

		"POST /apply-template":                   "llamacpp/apply-template",
		"POST /v1/chat/completions/input_tokens": "llamacpp/chat-input_tokens",
	}
)

// models is a /v1/models answer with these entries, each a JSON object.
func models(entries ...string) func(http.ResponseWriter, *http.Request) {
	return says(200, `{"object":"list","data":[`+strings.Join(entries, ",")+`]}`)
}

// routerProps answers /props for the model "a b" only.
func routerProps(w http.ResponseWriter, req *http.Request) {
	if req.URL.Query().Get("model") != "a b" {
		says(400, `{"error":{"message":"model name is missing"}}`)(w, req)
		return
	}
	replay(w, "llamacpp/props")
}

// quiet takes what net/http logs of handshakes that are meant to go wrong.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
