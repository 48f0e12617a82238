package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/valyala/fastjson"
)

const (
	introspectionWait = 5 * time.Second // vLLM's /server_info was seen to take 2 s
	maxAnswer         = 16 << 20        // bytes of one answer; a /server_info is 40 KB, a /metrics 0.1 MB
	maxQuoted         = 300             // characters of a server's message in ours
)

// call is one conversation with a target: a client, and what must not be shown.
type call struct {
	t   *Target
	hc  *http.Client
	red *Redactor
	own *http.Transport // to be closed, nil when the target brought its transport
}

func (t *Target) open() *call {
	c := &call{t: t, red: t.Redactor()}
	rt := t.Transport
	if rt == nil {
		// No proxy from the environment: the streams do not take one either,
		// so facts would come from another route than the numbers.
		c.own = &http.Transport{TLSClientConfig: t.TLS.Clone(), DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second}
		rt = c.own
	}
	c.hc = &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

func (c *call) close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// answer is a complete response.
type answer struct {
	address string // without secrets
	status  int
	header  http.Header
	body    []byte
}

func (a *answer) ok() bool { return a.status == http.StatusOK }

// html reports whether a page came where JSON was asked for. The content type
// alone does not say: pages come as text/plain, JSON as text/html.
func (a *answer) html() bool {
	b := bytes.TrimLeft(a.body, " \t\r\n\xef\xbb\xbf")
	return len(b) > 0 && b[0] == '<'
}

// json parses the body; nil when it is not JSON.
func (a *answer) json() *fastjson.Value {
	v, err := fastjson.ParseBytes(a.body)
	if err != nil {
		return nil
	}
	return v
}

// get asks for a path of the target, within introspectionWait.
func (c *call) get(ctx context.Context, path string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, introspectionWait)
	defer cancel()
	return c.do(ctx, http.MethodGet, c.t.URL+c.t.withQuery(path), nil, true)
}

// look is get for a path that may be missing: its JSON, or nil.
func (c *call) look(ctx context.Context, path string) *fastjson.Value {
	a, err := c.get(ctx, path)
	if err != nil || !a.ok() {
		return nil
	}
	return a.json()
}

// post sends JSON to a path of the target; the caller bounds the time.
func (c *call) post(ctx context.Context, path string, body []byte) (*answer, error) {
	return c.do(ctx, http.MethodPost, c.t.URL+c.t.withQuery(path), body, true)
}

func (c *call) do(ctx context.Context, method, address string, body []byte, credentials bool) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the address %s cannot be asked", c.red.String(bare(address)))
	}
	if credentials {
		req.Header = c.t.Headers()
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// Counting, probing and aborting may be done twice, so a POST on a kept
	// connection that the server has just closed is sent again, as a GET is. An
	// empty value tells net/http so and is not sent.
	req.Header["Idempotency-Key"] = nil
	resp, err := c.hc.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, address, err)
	}
	defer resp.Body.Close()
	a := &answer{address: c.red.String(bare(address)), status: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.transportError(ctx, address, err)
	}
	if len(a.body) > maxAnswer {
		return nil, &Error{Kind: BadAnswer, Status: a.status, Message: fmt.Sprintf("%s answered with more than %d MiB", a.address, maxAnswer>>20)}
	}
	return a, nil
}

// fault is the sentence for an answer that is not what the path should give,
// nil when the status is 200 and the body no page.
func (c *call) fault(a *answer) *Error {
	said := c.said(a)
	e := &Error{Status: a.status}
	switch s := a.status; {
	case s == http.StatusOK && a.html():
		e.Kind, e.Message = NotOpenAI, fmt.Sprintf("%s answered with an HTML page: no OpenAI-compatible server is at this address", a.address)
	case s == http.StatusOK:
		return nil
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		e.Kind = Unauthorized
		verb := "needs a key: give one with --api-key-file or STREAMGAUGE_API_KEY"
		if c.t.Headers().Get("Authorization") != "" {
			verb = "refused the key"
		}
		e.Message = fmt.Sprintf("%s %s (%d%s)", a.address, verb, s, said)
	case s >= 300 && s < 400:
		e.Kind = Redirect
		e.Message = fmt.Sprintf("%s redirects to %s, which is not followed: give that address instead", a.address, c.red.String(bare(a.header.Get("Location"))))
	case s == http.StatusServiceUnavailable && strings.Contains(strings.ToLower(said), "loading"):
		e.Kind, e.Message = Loading, fmt.Sprintf("%s is not ready yet (503%s)", a.address, said)
	case s == http.StatusNotFound && strings.Contains(strings.ToLower(said), "model"):
		e.Kind, e.Message = NoModel, fmt.Sprintf("%s answered 404%s", a.address, said)
	case (s == http.StatusNotFound || s == http.StatusMethodNotAllowed) && strings.HasSuffix(a.address, "/v1/models"):
		e.Kind, e.Message = NotOpenAI, fmt.Sprintf("%s answered %d: no OpenAI-compatible server is at this address", a.address, s)
	case s == http.StatusNotFound, s == http.StatusMethodNotAllowed, s == http.StatusNotImplemented:
		e.Kind, e.Message = NotFound, fmt.Sprintf("%s is not there (%d%s)", a.address, s, said)
	case s == http.StatusBadRequest && strings.Contains(said, "HTTP request to an HTTPS server"):
		e.Kind, e.Message = BadTLS, fmt.Sprintf("%s speaks TLS: try https://", a.address)
	case ContextOverflow(s, a.body):
		e.Kind, e.Message = Overflow, fmt.Sprintf("%s answered %d%s", a.address, s, said)
	case s == http.StatusBadRequest, s == http.StatusUnprocessableEntity:
		e.Kind, e.Message = Refused, fmt.Sprintf("%s refused the request (%d%s)", a.address, s, said)
	default:
		e.Kind, e.Message = BadStatus, fmt.Sprintf("%s answered %d%s", a.address, s, said)
	}
	return e
}

// said is what the server wrote, as ": text", one line, without secrets.
func (c *call) said(a *answer) string {
	text := ErrorText(a.body)
	if text == "" {
		return ""
	}
	text = strings.Join(strings.Fields(printable(c.red.String(text))), " ")
	if r := []rune(text); len(r) > maxQuoted {
		text = string(r[:maxQuoted]) + "…"
	}
	return ": " + text
}

// printable is text that may go to a terminal: an escape sequence in a server's
// words would move the cursor, or worse.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
