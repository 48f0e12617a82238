package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/passive"
	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/wire"
)

// watcher reads a proxy's event stream.
type watcher struct {
	t      *testing.T
	lines  *bufio.Scanner
	status int
	close  func()
}

func (w *world) watch(lines ...string) *watcher {
	w.t.Helper()
	c, err := w.admin()
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.WriteString(c, get("/live", lines...)); err != nil {
		w.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	s := bufio.NewScanner(res.Body)
	s.Buffer(nil, 1<<20)
	return &watcher{t: w.t, lines: s, status: res.StatusCode, close: func() { _ = c.Close() }}
}

// next decodes the data of the next event of a name; false at the stream's end.
func (w *watcher) next(name string, v any) bool {
	w.t.Helper()
	for w.lines.Scan() {
		if w.lines.Text() != "event: "+name {
			continue
		}
		if !w.lines.Scan() {
			return false
		}
		data, ok := strings.CutPrefix(w.lines.Text(), "data: ")
		if !ok {
			w.t.Fatalf("event %s has no data: %q", name, w.lines.Text())
		}
		if err := json.Unmarshal([]byte(data), v); err != nil {
			w.t.Fatalf("event %s: %v", name, err)
		}
		return true
	}
	return false
}

// TestLiveShowsAStream follows one stream through the event stream: waiting,
// decoding, over and in the matrix.
func TestLiveShowsAStream(t *testing.T) {
	sc := script(`ROLE | C("a") x200 every 20 from 1500 | FIN("stop") U(2000,200) D@5600`)
	bubble(t, Config{}, sim.Always(sc), func(t *testing.T, w *world) {
		done := make(chan answer, 1)
		watcher := w.watch()
		defer watcher.close()
		var m passive.Matrix
		if !watcher.next("matrix", &m) || len(m.Cells) != 0 {
			t.Errorf("the first event is no empty matrix: %+v", m)
		}
		var s LiveState
		if !watcher.next("state", &s) || s.Open != 0 || len(s.Upstreams) != 1 || !s.Upstreams[0].Up {
			t.Errorf("before: %+v, want nothing open and one upstream that is up", s)
		}
		go func() { done <- w.say(chat("X-Request-Id: one")) }()
		watcher.next("state", &s) // 1 s
		if s.Open != 1 || s.Decoding != 0 || s.Streams[0].ID != "one" || s.Streams[0].TTFTNS.OK {
			t.Errorf("at 1 s: %+v, want one request that waits", s)
		}
		for range 3 {
			watcher.next("state", &s)
		}
		if s.Decoding != 1 || s.Last.TTFT.N != 1 || s.Last.TTFT.P50.V != 1500 {
			t.Errorf("at 4 s: %d decoding, TTFT %+v; want 1, one of 1500 ms", s.Decoding, s.Last.TTFT)
		}
		if s.Last.GuessedTokS == 0 || s.Last.TBT.N != 0 {
			t.Errorf("at 4 s: %v tok/s guessed, %d times between tokens: before its end the stream has not told its tokens", s.Last.GuessedTokS, s.Last.TBT.N)
		}
		<-done
		for range 5 {
			watcher.next("state", &s)
		}
		if s.Open != 0 || s.Last.GuessedTokS != 0 || s.Last.TBT.N != 199 || s.Last.TBT.P50.V < 19.9 || s.Last.TBT.P50.V > 20.1 {
			t.Errorf("at the end: %d open, %v guessed, TBT %+v; want 0, 0, 199 of 20 ms", s.Open, s.Last.GuessedTokS, s.Last.TBT)
		}
		if got := s.Last.Seconds[len(s.Last.Seconds)-4]; got != 50 {
			t.Errorf("a second in the middle has %d tokens of %v, want 50", got, s.Last.Seconds)
		}
		watcher.next("matrix", &m)
		if len(m.Cells) != 1 || m.Cells[0].ContextLabel != "1-2K" || m.Cells[0].OutputTokens != 199 || m.Cells[0].TotalTokS.V != 50 || m.Cells[0].Model != "m" {
			t.Errorf("matrix %+v, want 199 tokens at 50 tok/s in 1-2K", m.Cells)
		}
	})
}

// A reply that is not streamed is no first token and no pace.
func TestLiveLeavesWholeRepliesOut(t *testing.T) {
	sc := sim.Script{Header: []string{"Content-Type: application/json"},
		Writes: []sim.Write{{At: 3 * time.Second, Bytes: []byte(`{"model":"m","choices":[{"index":0,"message":{"content":"a b c"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)}}}
	bubble(t, Config{}, sim.Always(sc), func(t *testing.T, w *world) {
		watcher := w.watch()
		defer watcher.close()
		var s LiveState
		watcher.next("state", &s)
		go w.say(post("/v1/chat/completions", `{"model":"m","messages":[]}`)) //nolint:staticcheck // SA2002: dialling in memory does not fail
		watcher.next("state", &s)
		if s.Open != 1 || s.Whole != 1 || !s.Streams[0].Whole {
			t.Errorf("%d open, %d whole, want one that is not streamed", s.Open, s.Whole)
		}
		for range 5 {
			watcher.next("state", &s)
		}
		if s.Open != 0 || s.Last.TTFT.N != 0 || s.Last.TokS != 0 {
			t.Errorf("after it %d open, %d first tokens, %v tok/s; want none", s.Open, s.Last.TTFT.N, s.Last.TokS)
		}
		if m := w.p.live.book.Matrix(); len(m.Cells) != 0 {
			t.Errorf("it is in the matrix: %+v", m.Cells)
		}
	})
}

// So is one whose request went past unread: it is one event.
func TestLiveLeavesUnreadWholeRepliesOut(t *testing.T) {
	sc := sim.Script{Header: []string{"Content-Type: application/json"},
		Writes: []sim.Write{{At: time.Second, Bytes: []byte(`{"model":"m","choices":[{"index":0,"message":{"content":"a b c"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)}}}
	bubble(t, Config{BufferBody: 16}, sim.Always(sc), func(t *testing.T, w *world) {
		w.say(post("/v1/chat/completions", `{"model":"m","messages":[],"metadata":{}}`))
		w.record()
		if m := w.p.live.book.Matrix(); len(m.Cells) != 0 || m.LeftOut.NotStreamed != 1 {
			t.Errorf("%+v, %+v; want it left out as not streamed", m.Cells, m.LeftOut)
		}
	})
}

// A stream whose metering failed does not count as decoding for ever.
func TestLiveForgetsBlindStreams(t *testing.T) {
	play := func(n int, _ *sim.Played) sim.Script {
		if n == 0 {
			return script(`C("a") x10 every 10 from 10 | C("boom")@200 | FIN("stop") D@210`)
		}
		return script(`C("a") x101 every 10 from 10 | FIN("stop") U(100,101) D@1100`)
	}
	bubble(t, Config{}, play, func(t *testing.T, w *world) {
		w.p.options.Text = func(_ wire.Channel, _ int, text []byte) {
			if string(text) == "boom" {
				panic("boom")
			}
		}
		w.say(chat())
		w.say(chat())
		cells := w.p.live.book.Matrix().Cells
		if len(cells) != 1 || cells[0].ConcurrencyLabel != "1" || cells[0].OutputTokens != 100 {
			t.Errorf("cells %+v, want 100 tokens of a stream that was alone", cells)
		}
	})
}

// The list of loops quotes the text only where texts may be stored.
func TestLiveLoops(t *testing.T) {
	const secret = "the quick brown fox jumps over the lazy dog. "
	for _, store := range []bool{false, true} {
		t.Run(fmt.Sprint("store ", store), func(t *testing.T) {
			sc := script(fmt.Sprintf(`ROLE C("Well, here we go: ") | C(%q) x200 every 20 from 40 | FIN("stop") D@4100`, secret))
			bubble(t, Config{StoreText: store}, sim.Always(sc), func(t *testing.T, w *world) {
				w.say(chat("X-Request-Id: looper"))
				watcher := w.watch()
				defer watcher.close()
				var s LiveState
				watcher.next("state", &s)
				if len(s.Loops) == 0 || !s.Loops[0].Acts || s.Loops[0].Verdict != "confirmed" || s.Loops[0].ID != "looper" || s.Loops[0].Period.V != int64(len(secret)) {
					t.Fatalf("loops %+v, want a confirmed one of %d characters", s.Loops, len(secret))
				}
				raw := string(w.p.liveFrame().state) + string(w.p.liveFrame().matrix)
				if got := strings.Contains(raw, "lazy dog"); got != store {
					t.Errorf("text on the page: %v, want %v", got, store)
				}
			})
		})
	}
}

func TestLoopListIsBounded(t *testing.T) {
	var l loopList
	for i := range 3 * keepLoops {
		l.add(SeenLoop{Tokens: i})
	}
	got := l.newestFirst()
	if len(got) != keepLoops || got[0].Tokens != 3*keepLoops-1 || got[keepLoops-1].Tokens != 2*keepLoops {
		t.Errorf("%d loops from %d to %d, want the newest %d", len(got), got[0].Tokens, got[len(got)-1].Tokens, keepLoops)
	}
}

// A watcher's place is free again when it has left, and Shutdown ends those that
// stay.
func TestWatchersAreBounded(t *testing.T) {
	bubble(t, Config{}, sim.Always(sim.Script{}), func(t *testing.T, w *world) {
		var all []*watcher
		for range maxWatchers {
			all = append(all, w.watch())
		}
		if a := w.ask("/live"); a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("watcher %d: status %d, want 503 and when to come again", maxWatchers+1, a.status)
		}
		all[0].close()
		eventually(t, "a place is free", func() bool { return w.p.live.watchers.Load() == maxWatchers-1 })
		last := w.watch()
		if last.status != 200 {
			t.Errorf("after one left: status %d, want 200", last.status)
		}
		w.shutdown()
		var s LiveState
		for last.next("state", &s) {
		}
		if err := last.lines.Err(); err != nil {
			t.Errorf("the event stream ended with %v, want a clean end", err)
		}
		for _, a := range all {
			a.close()
		}
		last.close()
	})
}

// deadlineConn notes the write deadline.
type deadlineConn struct {
	net.Conn
	until time.Time
}

func (c *deadlineConn) SetWriteDeadline(t time.Time) error { c.until = t; return nil }

// The server's limit for a response is moved along with each event, or it would
// end the stream after a minute.
func TestWatcherOutlivesTheWriteLimit(t *testing.T) {
	bubble(t, Config{}, sim.Always(sim.Script{}), func(t *testing.T, w *world) {
		w.p.live.watchers.Add(1)
		conn := &deadlineConn{}
		body := &liveBody{p: w.p, conn: conn}
		buf := make([]byte, 64<<10)
		for i := range 100 {
			n, err := body.Read(buf)
			if err != nil || !strings.HasSuffix(string(buf[:n]), "\n\n") {
				t.Fatalf("event %d: %d bytes, %v", i, n, err)
			}
			if left := time.Until(conn.until); left != liveWrite {
				t.Fatalf("event %d may take %v, want %v", i, left, liveWrite)
			}
		}
		_, _ = body.Close(), body.Close()
		if n := w.p.live.watchers.Load(); n != 0 {
			t.Errorf("%d watchers after a close that came twice, want 0", n)
		}
	})
}

// Without the token the page comes, so that it can be given, and no number.
func TestLivePageAsksForTheToken(t *testing.T) {
	w := sockets(t, Config{AdminToken: "t0ken"}, sim.Always(sim.Script{}))
	defer w.close()
	a := w.ask("/")
	if a.status != 401 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || !strings.Contains(string(a.body), `id="token"`) {
		t.Errorf("status %d, %s: want 401 and the page that asks", a.status, a.header.Get("Content-Type"))
	}
	if b := w.ask("/", "Authorization: Bearer t0ken"); string(a.body) != string(b.body) || b.status != 200 {
		t.Errorf("with the token: status %d, want 200 and the same page", b.status)
	}
	watcher := w.watch("Authorization: Bearer t0ken")
	defer watcher.close()
	var s LiveState
	if !watcher.next("state", &s) {
		t.Error("no state with the token")
	}
}

var (
	inTag     = regexp.MustCompile(`(?s)<(style|script)>(.*?)</(style|script)>`)
	elsewhere = regexp.MustCompile(`(?:src|href|action)="(?:[a-z]+:)?/|url\(|@import|<(?:iframe|object|embed|base)`)
)

// The pages' policy allows exactly the style and the script that stand in them,
// and nothing in them leads elsewhere: their addresses are relative, so that
// they work behind a path prefix.
func TestPagesNeedNothingElse(t *testing.T) {
	w := sockets(t, Config{}, sim.Always(sim.Script{}))
	defer w.close()
	for _, target := range []string{"/", "/matrix?format=html"} {
		a := w.ask(target)
		policy := a.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q lacks %s", target, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", target, policy)
		}
		body := string(a.body)
		for _, m := range inTag.FindAllStringSubmatch(body, -1) {
			if !strings.Contains(policy, m[1]+"-src "+hashSource(m[2])) {
				t.Errorf("%s: its %s would not be let in", target, m[1])
			}
		}
		if strings.Contains(body, " style=") || strings.Contains(body, " onclick=") {
			t.Errorf("%s: style or script in an attribute, which the policy forbids", target)
		}
		if found := elsewhere.FindString(body); found != "" {
			t.Errorf("%s: leads elsewhere: %s", target, found)
		}
	}
}

func TestMatrixFormats(t *testing.T) {
	sc := script(`ROLE | C("a") x200 every 1 from 5 | FIN("stop") U(2000,200) D@300`)
	bubble(t, Config{Models: []string{"m<b>"}}, sim.Always(sc), func(t *testing.T, w *world) {
		w.say(post("/v1/chat/completions", `{"model":"m<b>","stream":true,"messages":[]}`))
		for _, row := range []struct {
			target, accept, want string
			status               int
		}{
			{"/matrix", "", "application/json", 200},
			{"/matrix", "application/json", "application/json", 200},
			{"/matrix", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "text/html; charset=utf-8", 200},
			{"/matrix?format=json", "text/html", "application/json", 200},
			{"/matrix?format=html", "*/*", "text/html; charset=utf-8", 200},
			{"/matrix?format=xml", "", "text/plain; charset=utf-8", 400},
		} {
			a := w.ask(row.target, "Accept: "+row.accept)
			if got := a.header.Get("Content-Type"); got != row.want || a.status != row.status || a.header.Get("Vary") != "Accept" {
				t.Errorf("%s, Accept %q: %d %s, want %d %s", row.target, row.accept, a.status, got, row.status, row.want)
			}
		}
		page := string(w.ask("/matrix?format=html").body)
		for _, want := range []string{"m&lt;b&gt;", ">1-2K<", "(1000)", "few tokens"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		var m passive.Matrix
		if err := json.Unmarshal(w.ask("/matrix").body, &m); err != nil || m.Cells[0].RequestTokS.V != 1000 {
			t.Errorf("JSON: %+v, %v; want one cell of 1000 tok/s", m.Cells, err)
		}
	})
}

// The served models, and what the engine calls itself, are on the page.
func TestEngineFacts(t *testing.T) {
	sc := sim.Script{Header: []string{"Content-Type: application/json"}, Writes: []sim.Write{{Bytes: []byte(
		`{"data":[{"id":"a","owned_by":"vllm","max_model_len":8192},{"id":"b","owned_by":"vllm"}]}`)}}}
	bubble(t, Config{ModelsEvery: time.Minute}, sim.Always(sc), func(t *testing.T, w *world) {
		<-time.After(time.Second)
		want := []ServedModel{{"a", "vllm", 8192}, {"b", "vllm", 0}}
		if got := w.p.liveState(1).Upstreams[0].Models; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
