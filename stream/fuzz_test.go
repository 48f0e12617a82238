package stream

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

// invariants are what holds for the record of any bytes.
func invariants(t *testing.T, m *Meter, r *Record) {
	t.Helper()
	if r.GeneratedEvents < r.CoalescedEvents+min(r.GeneratedEvents, 1) {
		t.Errorf("%d of %d generated events coalesced: the last one never is", r.CoalescedEvents, r.GeneratedEvents)
	}
	if r.Gaps.N > int64(max(r.GeneratedEvents-1, 0)) {
		t.Errorf("%d gaps between %d events", r.Gaps.N, r.GeneratedEvents)
	}
	if r.Tokens < 0 || r.FirstTokens.OK && (r.FirstTokens.V < 0 || r.FirstTokens.V > r.Tokens) {
		t.Errorf("first_tokens %+v of %d", r.FirstTokens, r.Tokens)
	}
	if r.TBTNS.OK && !(r.TBTNS.V > 0) {
		t.Errorf("tbt_ns = %v", r.TBTNS.V)
	}
	if r.TTFTNS.OK != (r.GeneratedEvents > 0) || r.TTFTNS.OK && (r.TTFTNS.V < r.TTFENS.V || r.LastTokenNS.V < r.TTFTNS.V) {
		t.Errorf("ttfe %+v, ttft %+v, last_token %+v with %d events", r.TTFENS, r.TTFTNS, r.LastTokenNS, r.GeneratedEvents)
	}
	if (r.End == Completed || r.End == Truncated) && r.GeneratedEvents == 0 {
		t.Errorf("%s without a token", r.End)
	}
	sum, events := 0, 0
	for i, e := range m.Log() {
		sum += int(e.Tokens)
		if e.Tokens < 0 {
			t.Errorf("event %d has %d tokens", i, e.Tokens)
		}
		if e.Flags&SameEvent == 0 {
			events++
		}
	}
	if sum > r.Tokens || events != r.GeneratedEvents {
		t.Errorf("log: %d tokens in %d events; record: %d in %d", sum, events, r.Tokens, r.GeneratedEvents)
	}
	line := r.Append(nil)
	if back, err := ParseRecord(line); err != nil {
		t.Errorf("%v in %s", err, line)
	} else if again := back.Append(nil); !bytes.Equal(again, line) {
		t.Errorf("read and written again:\n%s\n%s", again, line)
	}
	if !json.Valid(line) {
		t.Errorf("not JSON: %s", line)
	}
}

// FuzzMeter holds that no bytes make the meter panic or a record contradict
// itself.
func FuzzMeter(f *testing.F) {
	files, err := filepath.Glob("../wire/testdata/*/*.*s[eo]*") // event streams, NDJSON and JSON
	if err != nil || len(files) == 0 {
		f.Fatalf("no captures: %v", err)
	}
	for _, name := range files {
		body, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		// What long ones repeat teaches the fuzzer nothing.
		f.Add(body[:min(len(body), 16<<10)], uint16(200), uint8(EOF), uint8(dialectOf(name)))
	}
	f.Add([]byte(c("a")+plus(c("b"), 7)+fin("repetition")+done), uint16(9), uint8(Retired), uint8(wire.Chat))
	// An invalid byte in the model's name was written otherwise than read back.
	f.Add([]byte(ev("{\"model\":\"a\x81b\",\"choices\":[]}")), uint16(9), uint8(EOF), uint8(wire.Chat))
	f.Fuzz(func(t *testing.T, body []byte, step uint16, kind, dialect uint8) {
		o := Options{Dialect: wire.Dialect(dialect % uint8(wire.Ollama+1)), StoreText: true, MaxEvent: 1 << 16}
		m := NewMeter(o)
		for range 2 { // the second stream through one meter is like the first
			m.Reset(o)
			m.Sent(origin)
			m.Headers(200, origin+1)
			at := origin + 2
			for p := body; len(p) > 0; {
				n := min(1+int(step)%512, len(p))
				m.Observe(p[:n], at)
				p = p[n:]
				at += stamp.Instant(n % 3)
			}
			invariants(t, m, m.Finish(Cause{Kind: CauseKind(kind % uint8(Drained+1))}, at))
		}
	})
}
