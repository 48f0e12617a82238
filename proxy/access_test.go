package proxy

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamgauge/streamgauge/sim"
)

// lines decodes an access log.
func accessLines(t *testing.T, b *lockedBuffer) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("access log: %v: %s", err, line)
		}
		out = append(out, m)
	}
	return out
}

func TestAccessLog(t *testing.T) {
	var log lockedBuffer
	bubble(t, Config{AccessLog: &log}, sim.Always(script(`C("a")@100 | C("b")@150 | FIN("stop") D @160`)), func(t *testing.T, w *world) {
		w.say(chat("X-Request-Id: r-1"))
		w.say(get("/v1/models"))
		w.shutdown() // flushes
		got := accessLines(t, &log)
		if len(got) != 2 {
			t.Fatalf("got %d lines, want 2:\n%s", len(got), log.String())
		}
		for key, want := range map[string]any{"method": "POST", "route": "chat", "upstream": "engine:80", "status": 200.0,
			"end": "completed", "took_ms": 160.0, "retries": 0.0, "id": "r-1", "model": "m", "tokens": 2.0, "ttft_ms": 100.0, "tbt_ms": 50.0} {
			if got[0][key] != want {
				t.Errorf("%s: got %v, want %v", key, got[0][key], want)
			}
		}
		for line := range strings.Lines(log.String()) {
			if i := strings.Index(line, `,"time":"`); i < 0 || strings.Contains(line[i+1:], ",") {
				t.Errorf("time is not last, as the document says: %s", line)
			}
		}
		if got[1]["route"] != "models" || got[1]["end"] != "plain" || got[1]["id"] != nil {
			t.Errorf("a request that is not observed: got %v", got[1])
		}
	})
}

// The sample is evenly spaced; failures are not sampled.
func TestAccessLogSample(t *testing.T) {
	var log lockedBuffer
	bubble(t, Config{AccessLog: &log, AccessShare: 0.25}, func(n int, _ *sim.Played) sim.Script {
		if n == 9 {
			return sim.Script{Status: 500, Framing: sim.ByLength}
		}
		return sim.Script{Framing: sim.ByLength}
	}, func(t *testing.T, w *world) {
		for range 12 {
			w.say(get("/health"))
		}
		w.shutdown()
		var status []any
		for _, l := range accessLines(t, &log) {
			status = append(status, l["status"])
		}
		if len(status) != 4 || status[2] != 500.0 {
			t.Errorf("12 requests at 25%%, the tenth failed: got lines with status %v, want three of 200 and one of 500", status)
		}
	})
}

// A reader that has stopped costs lines, not requests, and a second at the end.
func TestLinesNeverBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &blockedWriter{free: make(chan struct{})}
		l := NewLines(w)
		write := func(n int) {
			for range n {
				if _, err := l.Write([]byte("x\n")); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(1)
		synctest.Wait() // it is at the writer
		write(linesWaiting + 10)
		if got := l.Dropped(); got != 10 {
			t.Errorf("got %d dropped lines, want 10", got)
		}
		begun := time.Now()
		l.Close()
		if took := time.Since(begun); took != lastLines {
			t.Errorf("closing took %v with a writer that takes nothing, want %v", took, lastLines)
		}
		close(w.free)
		l.Close()
		if want := 1 + linesWaiting; w.lines != want {
			t.Errorf("the writer had %d lines in the end, want %d", w.lines, want)
		}
		write(2 * linesWaiting) // to nobody
	})
}

// Lines that their writer refuses are counted, those that wait at the end written.
func TestLinesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLines(failingWriter{})
		for range 3 {
			_, _ = l.Write([]byte("x\n"))
		}
		begun := time.Now()
		l.Close()
		if got := l.Dropped(); got != 3 || time.Since(begun) != 0 {
			t.Errorf("got %d dropped lines in %v, want 3 at once", got, time.Since(begun))
		}
	})
}

// blockedWriter takes nothing until it is free.
type blockedWriter struct {
	free  chan struct{}
	lines int
}

func (b *blockedWriter) Write(p []byte) (int, error) {
	<-b.free
	b.lines++
	return len(p), nil
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
