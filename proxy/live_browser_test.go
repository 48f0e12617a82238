package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/streamgauge/streamgauge/sim"
)

// TestLiveBrowser opens the live page in Chromium, behind a path prefix and with
// traffic running; testdata/live.mjs says what is checked. `make browser` runs it.
// STREAMGAUGE_SHOTS names a folder for pictures.
func TestLiveBrowser(t *testing.T) {
	if os.Getenv("STREAMGAUGE_BROWSER") == "" {
		t.Skip("STREAMGAUGE_BROWSER is not set: make browser runs this test")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("SKIPPED, THE LIVE PAGE IS UNCHECKED: no node: %v", err)
	}
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		chromium = "/usr/bin/chromium"
	}
	if _, err := os.Stat(chromium); err != nil {
		t.Skipf("SKIPPED, THE LIVE PAGE IS UNCHECKED: no Chromium: %v (apt-get install chromium, or set CHROMIUM)", err)
	}
	if _, err := os.Stat("../report/browser/node_modules/playwright-core"); err != nil {
		t.Fatalf("%v: run npm ci in report/browser", err)
	}
	profile, err := sim.Lookup("demo")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	serve := func(f func() error) {
		wait.Go(func() {
			if err := f(); err != nil {
				t.Error(err)
			}
		})
	}
	stop := func(name string, f func(context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := f(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	srv, engine := sim.New(profile, sim.Options{}), loopbackListener(t)
	serve(func() error { return srv.Serve(engine) })
	defer stop("engine", srv.Shutdown)

	start := func(token string) (data, admin net.Listener, p *Proxy) {
		p, err := New(Config{Upstreams: []string{"http://" + engine.Addr().String()}, AdminToken: token}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		data, admin = loopbackListener(t), loopbackListener(t)
		serve(func() error { return p.Serve(data) })
		serve(func() error { return p.ServeAdmin(admin) })
		return data, admin, p
	}
	data, admin, p := start("")
	defer stop("proxy", p.Shutdown)
	_, guarded, p2 := start("s3same")
	defer stop("guarded proxy", p2.Shutdown)

	// As a web server puts the page below a path.
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: admin.Addr().String()})
	behind.FlushInterval = -1
	behind.ErrorLog = nil
	front := httptest.NewServer(http.StripPrefix("/ops/gauge", behind))
	defer front.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 6 {
		wait.Go(func() {
			if err := keepAsking(ctx, "http://"+data.Addr().String(), profile.Model, i); err != nil && ctx.Err() == nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	out, err := exec.CommandContext(t.Context(), node, "testdata/live.mjs", front.URL+"/ops/gauge/",
		"http://"+guarded.Addr().String()+"/", "s3same", os.Getenv("STREAMGAUGE_SHOTS")).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// keepAsking is a client that asks one request after the other until ctx ends or
// one fails; a third of the clients do not ask for usage.
func keepAsking(ctx context.Context, base, model string, i int) error {
	options := ""
	if i%3 > 0 {
		options = fmt.Sprintf(`"stream_options":{"include_usage":true,"continuous_usage_stats":%v},`, i%3 == 2)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for n := 0; ; n++ {
		prompt := strings.Repeat(fmt.Sprintf("word%d ", n), 100<<(n%5))
		body := fmt.Sprintf(`{"model":%q,"stream":true,%s"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, model, options, 300+100*i, prompt)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("request %d: %s", n, res.Status)
		}
	}
}
