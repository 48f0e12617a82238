package deploy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/streamgauge/streamgauge/detect"
	"github.com/streamgauge/streamgauge/proxy"
	"github.com/streamgauge/streamgauge/sim"
)

const token = "scrape-me"

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// live is a proxy before a scripted engine and one that is down.
type live struct {
	data, admin string
	wait        sync.WaitGroup
}

func start(t *testing.T) *live {
	t.Helper()
	loop := fmt.Sprintf(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q}}],`+
		`"usage":{"prompt_tokens":8,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}}`, strings.Repeat("again ", 50))
	streams := []string{
		`ROLE@1 | C("a")@5 | C("b")@9 | C("c")@12 | FIN("stop") U(8,3) D @15`,
		fmt.Sprintf(`ev(%s) x9 every 1 from 1 | D @20`, loop),
		`ROLE@1 | C("a") C("b") @5 | FIN("stop") D @9`,
		`ev({"error":{"message":"no"}})@1`,
		`C("a") x500 every 10 from 1`,
	}
	engineLn, dataLn, adminLn, dead := listen(t), listen(t), listen(t), listen(t)
	_ = dead.Close()
	engine := sim.ServeScript(engineLn, func(n int, _ *sim.Played) sim.Script {
		return sim.Script{Writes: sim.MustWrites(streams[n%len(streams)])}
	})
	p, err := proxy.New(proxy.Config{
		Upstreams: []string{"http://" + engineLn.Addr().String(), "http://" + dead.Addr().String()},
		Models:    []string{"m"}, ModelsEvery: -1, AdminToken: token, Drain: time.Second,
		Limits: detect.Limits{Cycles: 3, Chars: 512},
	}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	l := &live{data: dataLn.Addr().String(), admin: adminLn.Addr().String()}
	for _, serve := range []func() error{func() error { return p.Serve(dataLn) }, func() error { return p.ServeAdmin(adminLn) }} {
		l.wait.Go(func() {
			if err := serve(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		l.wait.Wait()
		engine.Close()
	})
	return l
}

// ask sends a request and reads its answer, or leaves after a moment.
func (l *live) ask(t *testing.T, stay time.Duration) {
	t.Helper()
	c, err := net.Dial("tcp", l.data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := `{"model":"m","stream":true}`
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	_ = c.SetReadDeadline(time.Now().Add(stay))
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
	}
}

// startPrometheus runs a Prometheus that scrapes l, with our rules.
func startPrometheus(t *testing.T, l *live) (base string) {
	t.Helper()
	program := tool(t, "prometheus")
	dir := t.TempDir()
	here, err := filepath.Abs("prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	// The shipped configuration with another target, another pace.
	cfg := strings.NewReplacer("15s", "200ms", "rules.yml", here, "proxy:9464", l.admin,
		"credentials_file: /run/secrets/admin-token", "credentials: "+token).Replace(read(t, "prometheus/prometheus.yml"))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	port := listen(t)
	addr := port.Addr().String()
	_ = port.Close()
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return "http://" + addr
}

// answers asks Prometheus for a query and returns how many series it gives.
func answers(base, expr string) (int, error) {
	res, err := http.Get(base + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var a struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		return 0, err
	}
	if a.Status != "success" {
		return 0, fmt.Errorf("%s: %s", a.Status, a.Error)
	}
	return len(a.Data.Result), nil
}

// quiet are metrics of faults that a test cannot bring about from outside.
var quiet = []string{"streamgauge_upstream_retries_total", "streamgauge_blind_streams_total"}

// TestQueriesInPrometheus runs every query of the dashboard against a Prometheus
// that scrapes a proxy with streams, loops, failures and clients that leave: each
// has an answer, but for those about faults that stay away; those and the alerts'
// are understood, and the rules are loaded.
func TestQueriesInPrometheus(t *testing.T) {
	tool(t, "prometheus")
	l := start(t)
	base := startPrometheus(t, l)
	others := rules(t)
	var left []query
	for _, q := range dashboard(t) {
		silent := false
		for _, m := range quiet {
			silent = silent || strings.Contains(q.expr, m)
		}
		q.expr = strings.NewReplacer("$__rate_interval", "10s", "$model", ".*").Replace(q.expr)
		if silent {
			others = append(others, q)
			continue
		}
		left = append(left, q)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(60 * time.Second)
	var last error
	for len(left) > 0 {
		l.ask(t, 50*time.Millisecond)
		n, err := answers(base, left[0].expr)
		if n > 0 {
			left = left[1:]
			continue
		}
		last = err
		select {
		case <-tick.C:
		case <-limit:
			for _, q := range left {
				n, err := answers(base, q.expr)
				t.Errorf("%s: %d series (%v, before %v): %s", q.place, n, err, last, q.expr)
			}
			return
		}
	}
	for _, q := range others {
		if _, err := answers(base, q.expr); err != nil {
			t.Errorf("%s: %v", q.place, err)
		}
	}
	if n, err := answers(base, `up{job="streamgauge"} == 1`); n != 1 {
		t.Errorf("the target is not up under the job that the alerts ask for: %d (%v)", n, err)
	}
	res, err := http.Get(base + "/api/v1/rules")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range rules(t) {
		if !strings.Contains(string(b), `"name":"`+q.place+`"`) {
			t.Errorf("the alert %s is not loaded", q.place)
		}
	}
}

// TestMetricsAreClean has promtool judge /metrics.
func TestMetricsAreClean(t *testing.T) {
	promtool := tool(t, "promtool")
	l := start(t)
	for range 10 {
		l.ask(t, 50*time.Millisecond)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.admin+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = res.Body
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
