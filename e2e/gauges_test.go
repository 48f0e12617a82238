package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/enginetest"
)

// client talks to engines and admin ports; no connection of it is kept.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

// get reads a page.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	}
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return string(b)
}

// metric sums the series of one name in the engine's own metrics.
func metric(t *testing.T, s *enginetest.Server, name string) float64 {
	t.Helper()
	sum, found := 0.0, false
	lines := bufio.NewScanner(strings.NewReader(get(t, s.MetricsURL)))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("%s: %q: %v", s.MetricsURL, lines.Text(), err)
		}
		sum, found = sum+v, true
	}
	if !found {
		t.Fatalf("%s has no %s", s.MetricsURL, name)
	}
	return sum
}

// wait asks every few milliseconds until a condition holds, and returns how long
// that took; past the limit the test fails with what it waited for.
func wait(t *testing.T, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
	return time.Since(begin)
}

// idle waits until the engine runs nothing.
func idle(t *testing.T, s *enginetest.Server, f facts) {
	t.Helper()
	wait(t, 10*time.Second, "idle engine", func() bool { return metric(t, s, f.gauge) == 0 })
}
