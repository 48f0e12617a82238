package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// logLines scans a program's log; next returns the first line whose message has
// these words.
type logLines struct {
	t  *testing.T
	in *bufio.Scanner
}

func (l *logLines) next(words string) map[string]any {
	l.t.Helper()
	for l.in.Scan() {
		var m map[string]any
		if err := json.Unmarshal(l.in.Bytes(), &m); err != nil {
			l.t.Fatalf("log line %s: %v", l.in.Bytes(), err)
		}
		if text, _ := m["message"].(string); strings.Contains(text, words) {
			return m
		}
	}
	l.t.Fatalf("the log ended without %q", words)
	return nil
}

// TestReloadAtSIGHUP: the file is read again, mistakes change nothing, and what
// needs a restart is named.
func TestReloadAtSIGHUP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "proxy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("policy: [tag]\nring: 10\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--config", file, "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "off",
			"--models-every", "off", "--log-format", "json"}, io.Discard, w)
		w.Close()
	}()
	log := &logLines{t, bufio.NewScanner(r)}
	log.next("forwarding")
	hup := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}

	write("policy: [\"cut:model=m\", tag]\ninject-usage: chat\nring: 10\n")
	hup()
	if m := log.next("reload: policies"); m["policies"] != 2.0 {
		t.Errorf("got %v, want 2 policies", m)
	}
	write("policy: [kill]\nring: many\n")
	hup()
	if m := log.next("nothing was changed"); !strings.Contains(m["mistakes"].(string), "ring") {
		t.Errorf("got %v, want the mistake named", m)
	}
	write("policy: [kill]\nring: 10\n")
	hup()
	if m := log.next("nothing was changed"); !strings.Contains(m["mistakes"].(string), `policy "kill"`) {
		t.Errorf("got %v, want the mistake named", m)
	}
	write("ring: 20\n")
	hup()
	if m := log.next("next start"); len(m["settings"].([]any)) != 1 || m["settings"].([]any)[0] != "ring" {
		t.Errorf("got %v, want ring named", m)
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d, want 0", c)
	}
}
