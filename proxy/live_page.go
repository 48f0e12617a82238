package proxy

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"

	"github.com/valyala/fasthttp"
)

var (
	//go:embed assets/live.tmpl.html
	liveHTML string
	//go:embed assets/live.js
	liveJS string
	//go:embed assets/live.css
	liveCSS string
	//go:embed assets/matrix.tmpl.html
	matrixHTML string
)

// page is a document that needs nothing else: style and script stand in it, and
// its policy names them by their hashes, so that nothing that came into the
// page by another way would run.
type page struct {
	policy string
	body   []byte
}

// livePage is the same for all: whoever gets it still has to show the token
// before any number is sent.
var livePage = makeLivePage()

func makeLivePage() page {
	var b bytes.Buffer
	t := template.Must(template.New("live").Parse(liveHTML))
	err := t.Execute(&b, struct {
		CSS template.CSS
		JS  template.JS
	}{template.CSS(liveCSS), template.JS(liveJS)}) // #nosec G203 -- ours, embedded
	if err != nil {
		panic("proxy: the live page's template: " + err.Error())
	}
	return page{policy: policyOf(liveCSS, liveJS), body: b.Bytes()}
}

// policyOf is the content security policy of a page with one style and, unless
// it is empty, one script.
func policyOf(css, js string) string {
	p := "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src data:; style-src " + hashSource(css)
	if js != "" {
		p += "; script-src " + hashSource(js) + "; connect-src 'self'"
	}
	return p
}

func hashSource(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (g *page) serve(ctx *fasthttp.RequestCtx, status int) {
	h := &ctx.Response.Header
	h.Set("Content-Security-Policy", g.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/html; charset=utf-8")
	ctx.SetBody(g.body)
}
