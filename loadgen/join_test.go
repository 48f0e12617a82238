package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

// fakeProxy is the admin port of a proxy that would have seen the engine's log
// of the run, its instants earlier than ours by delay, on a clock of its own.
type fakeProxy struct {
	r     *rig
	delay time.Duration
	clock stamp.Instant     // its monotonic clock less ours
	lost  func(string) bool // ids it has no record of
	asked int
}

func (p *fakeProxy) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	switch req.URL.Path {
	case "/version":
		fmt.Fprint(w, `{"streamgauge":"proxy","version":"v1","data":"127.0.0.1:9000","cursor":"e.0"}`)
	case "/records":
		if want := fmt.Sprintf("e.%d", p.asked); req.URL.Query().Get("since") != want || req.URL.Query().Get("events") != "1" {
			p.r.t.Errorf("asked for %s, want since=%s&events=1", req.URL, want)
		}
		p.asked++
		w.Header().Set(cursorField, fmt.Sprintf("e.%d", p.asked))
		for _, q := range p.r.srv.Truth().Requests() {
			if q.FirstToken >= 0 && !p.lost(q.ID) {
				w.Write(append(p.record(q).Append(nil), '\n'))
			}
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

// record meters what the engine sent, as a proxy on its host would have.
func (p *fakeProxy) record(q sim.Request) *stream.Record {
	start := stamp.FromTime(p.r.srv.Truth().Start) - stamp.Instant(p.delay) + p.clock
	m := stream.NewMeter(stream.Options{Dialect: wire.Chat})
	m.Sent(start.Add(q.Arrived))
	m.Headers(200, start.Add(q.Arrived))
	m.Stamps(stamp.Kernel)
	for i, e := range q.Emits {
		b, _ := json.Marshal(fmt.Sprintf("%s %d", lexicon[i%len(lexicon)], i))
		ids := strings.Repeat("7,", int(e.Tokens))
		m.Observe(fmt.Appendf(nil, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"token_ids\":[%s]}]}\n\n", b, strings.TrimSuffix(ids, ",")), start.Add(e.At))
	}
	rec := m.Finish(stream.Cause{Kind: stream.Gone}, start.Add(max(q.Ended, q.FirstToken)))
	rec.ID, rec.EventLog = q.ID, stream.EventLog(m.Log(), start.Add(q.Arrived))
	if p.clock != 0 {
		rec.SentRealNS.V += int64(time.Hour) // another host was booted at another time
	}
	return rec
}

func TestJoin(t *testing.T) {
	for _, c := range []struct {
		name    string
		clock   stamp.Instant
		delay   time.Duration // by which the proxy's instants are earlier, on one host
		missing bool
	}{
		{"one host: the monotonic instants map directly", 0, 3 * time.Millisecond, false},
		{"another clock: the least difference is the offset", 1e15, 3 * time.Millisecond, false},
		{"a missing record falls back to our stamps", 0, 3 * time.Millisecond, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := profile(t, "plain")
			p.Chunks = []int{2, 3}
			bubble(t, p, sim.Options{}, func(r *rig) {
				admin := &fakeProxy{r: r, delay: c.delay, clock: c.clock, lost: func(id string) bool { return c.missing && strings.Contains(id, "-s1-") }}
				r.deps.Admin = admin
				cfg := oneCell(4)
				cfg.ProxyAdmin = "http://proxy.test:9464"
				out := r.run(cfg)
				if out.Header.Proxy != "proxy v1 at 127.0.0.1:9000" {
					t.Errorf("header names the proxy %q", out.Header.Proxy)
				}
				cell := cellOf(t, out, matrix.Decode, 0, 4)
				want(t, cell, matrix.Valid, "", "")
				d := cell.ProxyDiff
				if d == nil {
					t.Fatal("no proxy_diff")
				}
				joined, missing := 4, 0
				if c.missing {
					joined, missing = 3, 1
				}
				if d.Joined != joined || d.Missing != missing || warned(cell, "proxy_records_missing") != c.missing {
					t.Errorf("%d joined, %d missing, warnings %v; want %d and %d", d.Joined, d.Missing, cell.Warnings, joined, missing)
				}
				// TTFT is relative to the proxy's own sent; both moved alike.
				if d.TTFTMS.V != 0 || cell.TTFTMS.V != 50 || d.OwnTTFT.V != 50 {
					t.Errorf("TTFT %v, own %v, difference %v; want 50, 50, 0", cell.TTFTMS.V, d.OwnTTFT.V, d.TTFTMS.V)
				}
				if math.Abs(cell.TotalTokS.V/d.OwnTotal.V-1) > .005 {
					t.Errorf("total %.1f by the proxy, %.1f by us", cell.TotalTokS.V, d.OwnTotal.V)
				}
				for _, rec := range r.file().Records {
					if rec.Phase != stream.Warmup {
						continue
					}
					proxied := !c.missing || rec.Slot != 1
					if got := rec.Stamps == "proxy:kernel"; got != proxied {
						t.Errorf("%s: stamps %s", rec.ID, rec.Stamps)
					}
					q := r.byID(rec.ID)
					at := time.Duration(rec.SentNS.V) + out.Header.Start.Sub(r.srv.Truth().Start)
					wantAt := q.Arrived
					if proxied && c.clock == 0 {
						wantAt -= c.delay
					}
					if at != wantAt {
						t.Errorf("%s: sent at %v of the engine's clock, want %v", rec.ID, at, wantAt)
					}
				}
			})
		})
	}
}

// TestJoinOfWhatWentNoFurther: a request that we took back while the proxy was
// connecting for it has a record like any other. One of a stream with events and
// no instant of its sending is none to measure by.
func TestJoinOfWhatWentNoFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := func(id string, events int) *life {
			l := &life{rec: &stream.Record{ID: id, End: stream.Cancelled}, sent: stamp.Now(), onset: clean}
			l.log = make([]stream.Event, events)
			return l
		}
		theirs := func(id string) []byte {
			rec := stream.NewMeter(stream.Options{}).Finish(stream.Cause{Kind: stream.Gone}, stamp.Now())
			rec.ID = id
			return append(rec.Append(nil), '\n')
		}
		p := &proxyRecords{base: "http://proxy.test", http: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Write(append(theirs("taken back"), theirs("odd")...))
			return w.Result(), nil
		})}}
		back, odd, lost := ours("taken back", 0), ours("odd", 3), ours("lost", 0)
		joined, missing, fault := p.join(t.Context(), []*life{back, odd, lost})
		if joined != 1 || missing != 2 || fault != "" {
			t.Errorf("%d joined, %d missing (%s); want the one that went no further, and two", joined, missing, fault)
		}
		if back.rec.Stamps != "" || back.rec.End != stream.Cancelled {
			t.Errorf("the stream became %+v, want it as it was", back.rec)
		}
	})
}

func (r *rig) byID(id string) sim.Request {
	for _, q := range r.srv.Truth().Requests() {
		if q.ID == id {
			return q
		}
	}
	r.t.Errorf("the engine knows no request %s", id)
	return sim.Request{}
}

func TestNotOurProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := findProxy(context.Background(), "http://other.test", roundTrip(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			fmt.Fprint(w, `{"version":"0.9"}`)
			return w.Result(), nil
		}))
		if err == nil || !strings.Contains(err.Error(), "http://other.test/version is not that of our proxy") {
			t.Errorf("error %v", err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestUsageFinal: a server that tells its count only at the end. Completed
// streams are exact, those that we cut take their ratio, and the cell says so.
func TestUsageFinal(t *testing.T) {
	reply := func() sim.Script {
		sc := steady(50 * time.Millisecond)
		sc.Writes = sc.Writes[:300]
		sc.Writes = append(sc.Writes, sim.Write{At: 50*time.Millisecond + 3*time.Second, Bytes: sim.MustBytes(`FIN("stop") U(20,600) D`)})
		return sc
	}
	scripted(t, nil, func(int, *sim.Played) sim.Script { return reply() }, func(r *scriptRig) {
		c := cellOf(t, r.run(oneCell(2)), matrix.Decode, 0, 2)
		want(t, c, matrix.Valid, "", "")
		if !warned(c, "usage_final_aborted") || c.TokensFrom != stream.FromUsageFinal {
			t.Errorf("tokens from %s, warnings %v; want usage_final and its warning", c.TokensFrom, c.Warnings)
		}
		// 2 tokens an event of 10 ms, 3.05 s of every 3.05+0 s decoding less the wait.
		if rate := 2 * 600 / 3.05; math.Abs(c.TotalTokS.V/rate-1) > .02 {
			t.Errorf("total %.1f tok/s, want about %.1f", c.TotalTokS.V, rate)
		}
		if math.Abs(c.RequestTokS.V-200) > 1 {
			t.Errorf("request rate %.1f tok/s, want 200", c.RequestTokS.V)
		}
	})
}

func TestOnce(t *testing.T) {
	p := profile(t, "plain")
	p.EOS = sim.Lengths{Median: 40}
	bubble(t, p, sim.Options{}, func(r *rig) {
		var text bytes.Buffer
		rec, err := Once(context.Background(), Config{MaxTokens: 100}, r.deps, "say something", func(_ wire.Channel, _ int, b []byte) { text.Write(b) })
		if err != nil {
			t.Fatal(err)
		}
		q := r.byID(rec.ID)
		if rec.End != stream.Completed || rec.Tokens != q.Tokens || rec.Phase != stream.Once {
			t.Errorf("%s with %d tokens in phase %s, want completed with the engine's %d in once", rec.End, rec.Tokens, rec.Phase, q.Tokens)
		}
		if got := time.Duration(rec.TTFTNS.V); got != q.FirstToken-q.Arrived {
			t.Errorf("TTFT %v, want %v", got, q.FirstToken-q.Arrived)
		}
		if words := len(strings.Fields(text.String())); words < 20 {
			t.Errorf("text of %d words", words)
		}
	})
}

func TestOnceTellsWhyNot(t *testing.T) {
	bubble(t, profile(t, "plain"), sim.Options{APIKey: "sk-right"}, func(r *rig) {
		r.deps.Target.Key = "sk-wrong"
		_, err := Once(context.Background(), Config{}, r.deps, "", nil)
		if err == nil || strings.Contains(err.Error(), "sk-wrong") {
			t.Errorf("error %v, want one without the key", err)
		}
	})
}
