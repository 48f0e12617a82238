package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

// TestPanicInMetering: the stream goes on, byte by byte, and is counted.
func TestPanicInMetering(t *testing.T) {
	sc := script(r1)
	bubble(t, Config{}, sim.Always(sc), func(t *testing.T, w *world) {
		w.p.options.Text = func(wire.Channel, int, []byte) { panic("secret of the prompt") }
		a := w.say(chat())
		if a.err != nil || !bytes.Equal(a.body, bytesOf(sc)) || len(a.pieces) != len(sc.Writes) {
			t.Errorf("got %q in %d pieces (%v), want the whole stream", a.body, len(a.pieces), a.err)
		}
		for series, want := range map[string]string{
			`streamgauge_panics_total`:                                   "1",
			`streamgauge_blind_streams_total{reason="panic"}`:            "1",
			`streamgauge_streams_active{model="m",upstream="engine:80"}`: "0",
		} {
			if got := w.metric(series); got != want {
				t.Errorf("%s: got %q, want %s", series, got, want)
			}
		}
		if strings.Contains(w.logs.String(), "secret") {
			t.Errorf("the panic's value is in the log: %s", w.logs)
		}
		w.p.options.Text = nil
		if a := w.say(chat()); a.err != nil {
			t.Fatal(a.err)
		}
		if r := w.record(); r.Tokens != 3 {
			t.Errorf("the next stream: got %d tokens, want 3", r.Tokens)
		}
	})
}

// TestSecrets plants secrets wherever a request can carry them and greps
// everything that leaves the proxy but the request itself.
func TestSecrets(t *testing.T) {
	const planted = "SECRET"
	file := filepath.Join(t.TempDir(), "records.ndjson")
	echo := sim.Script{Status: 401, Framing: sim.ByLength, Header: []string{"Content-Type: application/json", "Set-Cookie: s=SECRET-cookie"},
		Writes: []sim.Write{{Bytes: []byte(`{"error":{"message":"Incorrect API key provided: sk-SECRET-echo","type":"invalid_request_error"}}`)}}}
	broken := sim.Script{Framing: sim.ByItself, End: sim.Drop, Writes: []sim.Write{{Bytes: []byte("HTTP/1.1 200 OK\r\nSet-Cookie: s=SECRET\x00\r\n\r\n")}}}
	garbage := sim.Script{Framing: sim.ByItself, End: sim.Drop, Writes: []sim.Write{{Bytes: []byte("data: SECRET text\n\n")}}}
	streamed := script(`C("SECRET text")@1 | ev({"error":{"message":"prompt was: SECRET","code":"x"}})@2`)
	for _, cfg := range []Config{{}, {Upstreams: []string{"http://127.0.0.1:1"}}} {
		cfg.RecordFile = file
		cfg.ModelsKey = "SECRET-models-key"
		cfg.AdminToken = "token"
		var access lockedBuffer
		cfg.AccessLog = &access
		w := sockets(t, cfg, func(n int, _ *sim.Played) sim.Script {
			switch n {
			case 0:
				return echo
			case 2:
				return broken
			case 3:
				return garbage
			}
			return streamed
		})
		body := `{"model":"SECRET-model","stream":true,"messages":[{"role":"user","content":"SECRET prompt"}],"user":"SECRET"}`
		for range 4 {
			w.say(post("/v1/chat/completions?key=SECRET&api_key=SECRET", body,
				"Authorization: Bearer sk-SECRET", "Cookie: s=SECRET", "X-Api-Key: SECRET", "Proxy-Authorization: SECRET"))
		}
		w.say("GET /SECRET HTTP/1.1\r\nHost: SECRET\r\nX SECRET: 1\r\n\r\n")
		w.say("GET /?key=SECRET HTTP/9\r\nX-SECRET\r\n\r\n")
		var out bytes.Buffer
		for _, page := range []string{"/metrics", "/streams", "/upstreams", "/version", "/records?events=1", "/SECRET"} {
			out.Write(w.ask(page, "Authorization: Bearer token").body)
		}
		w.close()
		out.WriteString(w.logs.String())
		out.WriteString(access.String())
		kept, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(kept)
		for line := range bytes.Lines(out.Bytes()) {
			// The model's name is what a record is for; it is no secret, but
			// no label either.
			line = bytes.ReplaceAll(line, []byte(`"model":"SECRET-model"`), nil)
			line = bytes.ReplaceAll(line, []byte(`/SECRET`), nil)
			if bytes.Contains(line, []byte(planted)) {
				t.Errorf("a planted secret came out: %s", line)
			}
		}
	}
}

func TestAdminToken(t *testing.T) {
	w := sockets(t, Config{AdminToken: "t0ken"}, sim.Always(sim.Script{}))
	defer w.close()
	for _, c := range []struct {
		path, auth string
		want       int
	}{
		{"/metrics", "", 401},
		{"/metrics", "Bearer t0ke", 401},
		{"/metrics", "Bearer t0ken2", 401},
		{"/records", "t0ken", 401},
		{"/metrics", "Bearer t0ken", 200},
		{"/nothing", "Bearer t0ken", 404},
		{"/", "", 401}, // the page that asks for the token; see TestLivePageAsksForTheToken
		{"/", "Bearer t0ken", 200},
		{"/live", "", 401},
		{"/matrix", "", 401},
		{"/matrix", "Bearer t0ken", 200},
		{"/healthz", "", 200}, // a probe carries no token, and learns nothing
		{"/readyz", "", 200},
	} {
		var lines []string
		if c.auth != "" {
			lines = []string{"Authorization: " + c.auth}
		}
		if got := w.ask(c.path, lines...).status; got != c.want {
			t.Errorf("%s with %q: got %d, want %d", c.path, c.auth, got, c.want)
		}
	}
}

func TestAdminRefusesAPublicAddress(t *testing.T) {
	p, err := New(Config{Upstreams: []string{"http://127.0.0.1:1"}, ModelsEvery: -1}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ServeAdmin(ln); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("got %v, want a refusal that says what is missing", err)
	}
	if _, err := ln.Accept(); err == nil {
		t.Error("the listener was left open")
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{
		Upstreams: []string{"ftp://x", "http://user:hunter2@host", "http://host/?key=hunter2", "http://", "http://ok:1"},
		MaxBody:   -1, AdminToken: "a b",
	}, zerolog.Nop())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"scheme", "credentials", "query", "no host", "max body", "white space"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to name %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error tells a secret: %v", err)
	}
}

func TestRecords(t *testing.T) { onBothPaths(t, testRecords) }

func testRecords(t *testing.T, on path) {
	w := sockets(t, on(Config{}), sim.Always(script(r1)))
	defer w.close()
	ids := func(a answer) (out []string) {
		for line := range bytes.Lines(a.body) {
			var r stream.Record
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			out = append(out, r.ID)
		}
		return out
	}
	say := func(id string) {
		w.say(chat("X-Request-Id: " + id))
		// The client has its last byte before the record is written.
		eventually(t, "the record of "+id, func() bool { return len(ids(w.ask("/records?id="+id))) == 1 })
	}
	say("a")
	say("b")
	w.say(get("/v1/models")) // not observed
	first := w.ask("/records")
	if got := fmt.Sprint(ids(first)); got != "[a b]" {
		t.Errorf("all: got %s, want [a b]", got)
	}
	if bytes.Contains(first.body, []byte("event_log")) {
		t.Error("event logs come unasked")
	}
	cursor := first.header.Get(cursorHeader)
	if got := ids(w.ask("/records?since=" + cursor)); got != nil {
		t.Errorf("after the last: got %v, want none", got)
	}
	say("c")
	if got := fmt.Sprint(ids(w.ask("/records?since=" + cursor))); got != "[c]" {
		t.Errorf("since the cursor: got %s, want [c]", got)
	}
	if got := fmt.Sprint(ids(w.ask("/records?id=c,a"))); got != "[a c]" {
		t.Errorf("by id: got %s, want [a c]", got)
	}
	if got := fmt.Sprint(ids(w.ask("/records?since=other.2"))); got != "[a b c]" {
		t.Errorf("a cursor of another process: got %s, want everything", got)
	}
	r := w.records()[0]
	if len(r.EventLog) != 3 || r.EventLog[0][0] != r.TTFTNS.V {
		t.Errorf("event log: got %v, want 3 events from ttft %d on", r.EventLog, r.TTFTNS.V)
	}
	if !r.SentMonoNS.OK || !r.SentRealNS.OK || r.Phase != stream.Live || r.Route != "chat" || r.Upstream == "" {
		t.Errorf("record lacks what the proxy knows: %+v", r)
	}
	if now := time.Now().UnixNano(); r.SentRealNS.V > now || r.SentRealNS.V < now-int64(time.Minute) {
		t.Errorf("sent_real_ns: got %d, now is %d", r.SentRealNS.V, now)
	}
	if !r.RequestReceivedNS.OK || r.RequestReceivedNS.V > 0 {
		t.Errorf("request_received_ns: got %v, want it before sent", r.RequestReceivedNS)
	}
}

// TestNothingIsAddedToTheWire: a record needs an id, the request does not get one.
func TestNothingIsAddedToTheWire(t *testing.T) { onBothPaths(t, testNothingIsAddedToTheWire) }

func testNothingIsAddedToTheWire(t *testing.T, on path) {
	w := sockets(t, on(Config{}), sim.Always(script(r1)))
	defer w.close()
	a := w.say(chat())
	if h := w.up.Played()[0].Header; len(h) != 1 || h.Get("Content-Length") == "" {
		t.Errorf("upstream got %v, want the client's one field", h)
	}
	if len(a.header) != 1 || a.header.Get("Content-Type") == "" {
		t.Errorf("client got %v, want the engine's one field", a.header)
	}
	if r := w.record(); r.ID == "" {
		t.Error("the record has no id")
	}
}

func TestRing(t *testing.T) {
	r := newRing("e", 3, 1<<20)
	for i := range 1000 {
		r.put(pack(&stream.Record{Seq: i}, nil, 0))
	}
	seqs := func(items []kept) (out []int) {
		for _, k := range items {
			out = append(out, k.record().Seq)
		}
		return out
	}
	items, next, lost := r.since("")
	if got := fmt.Sprintln(seqs(items), next, lost); got != "[997 998 999] e.1000 0\n" {
		t.Errorf("got %s, want the last three and nothing lost", got)
	}
	if items, _, lost = r.since("e.990"); fmt.Sprint(seqs(items), lost) != "[997 998 999] 7" {
		t.Errorf("since 990: got %v, lost %d, want the last three and 7 lost", seqs(items), lost)
	}
	for _, cursor := range []string{"e.5000", "e.x", "x", "e.-1"} {
		if items, _, _ = r.since(cursor); len(items) != 3 {
			t.Errorf("since %q: got %d records, want 3", cursor, len(items))
		}
	}
	r = newRing("e", 1000, 10_000)
	for range 20 {
		r.put(make(kept, 2200))
	}
	if items, _, _ = r.since(""); len(items) != 4 || r.bytes > 10_000 {
		t.Errorf("bounded by bytes: got %d records of %d bytes, want 4 of at most 10000", len(items), r.bytes)
	}
	r.put(make(kept, 20_000))
	if items, _, _ = r.since(""); len(items) != 1 {
		t.Errorf("a record over the bound: got %d records, want it alone", len(items))
	}
	if len(r.items) > 200 {
		t.Errorf("the slice behind the ring has %d entries", len(r.items))
	}
}

func TestPackedLog(t *testing.T) {
	const sent = 1e9
	log := make([]stream.Event, 5000)
	for i := range log {
		log[i] = stream.Event{At: sent + stamp.Instant(i-7)*1e10, Tokens: int32(i % 3), Flags: stream.Coalesced * uint8(i%2)}
	}
	log[17].At, log[17].Tokens = math.MinInt64/2, math.MaxInt32
	log[18].Flags = stream.SameEvent
	want := stream.EventLog(log, sent)
	if len(want) != len(log)-1 || want[17] != [3]int64{math.MinInt64/2 - sent, math.MaxInt32, int64(stream.Coalesced)} {
		t.Fatalf("%d entries, %v", len(want), want[17])
	}
	k := pack(&stream.Record{ID: "x"}, log, sent)
	if got := k.whole(); got.ID != "x" || !slices.Equal(got.EventLog, want) {
		t.Error("what was unpacked is not what was packed")
	}
	if got := k.record(); got.ID != "x" || got.EventLog != nil {
		t.Errorf("without its log: %q, %d entries", got.ID, len(got.EventLog))
	}
}

func TestRecordFileRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.ndjson")
	dropped := 0
	f, err := openRecordFile(path, 3000, 2, zerolog.Nop(), func() { dropped++ })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		f.put(pack(&stream.Record{Seq: i, ID: "x"}, nil, 0))
	}
	f.close()
	var seqs []int
	for _, name := range []string{path + ".2", path + ".1", path} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 3000 {
			t.Errorf("%s has %d bytes, want 3000 at most", filepath.Base(name), len(b))
		}
		for line := range bytes.Lines(b) {
			var r stream.Record
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatalf("%s: %v", filepath.Base(name), err)
			}
			seqs = append(seqs, r.Seq)
		}
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("more old files are kept than asked")
	}
	for i := 1; i < len(seqs); i++ {
		if seqs[i] != seqs[i-1]+1 {
			t.Fatalf("records are missing or out of order: %v", seqs)
		}
	}
	if len(seqs) == 0 || seqs[len(seqs)-1] != 39 || dropped != 0 {
		t.Errorf("the last records are %v, %d dropped; want 39 last and none", seqs, dropped)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", st.Mode(), err)
	}
}

// TestRecordFileBlocked: a disk that hangs costs records, never a request.
func TestRecordFileBlocked(t *testing.T) {
	var mu sync.Mutex
	dropped := 0
	f := &recordFile{queue: make(chan kept, 2), dropped: func() { mu.Lock(); dropped++; mu.Unlock() }}
	for range 5 {
		f.put(nil)
	}
	if dropped != 3 {
		t.Errorf("got %d dropped, want 3", dropped)
	}
}

func TestModelsAreRead(t *testing.T) {
	list := sim.Script{Framing: sim.ByLength, Writes: []sim.Write{{Bytes: []byte(`{"object":"list","data":[{"id":"served"},{"id":"lora-1"}]}`)}}}
	w := sockets(t, Config{ModelsEvery: time.Hour, ModelsKey: "k", Models: []string{"fixed"}}, func(_ int, p *sim.Played) sim.Script {
		if p.Target == "/v1/models" {
			return list
		}
		return script(r1)
	})
	defer w.close()
	eventually(t, "the list is read", func() bool { return w.p.metrics.Model([]byte("lora-1")).Name == "lora-1" })
	if got := w.up.Played()[0].Header.Get("Authorization"); got != "Bearer k" {
		t.Errorf("asked with %q, want the key", got)
	}
	for name, label := range map[string]string{"served": "served", "fixed": "fixed", "else": "other"} {
		w.say(post("/v1/chat/completions", `{"model":"`+name+`","stream":true}`))
		if got := w.metric(`streamgauge_ttft_seconds_count{model="` + label + `"}`); got != "1" {
			t.Errorf("model %s: ttft count of label %s is %q, want 1", name, label, got)
		}
	}
}

// TestModelsComeLate: a stream that began before the list of served models is named by
// it, in the metrics if its first token came behind the list, in the matrix if its end did.
func TestModelsComeLate(t *testing.T) {
	for _, c := range []struct {
		name       string
		listed     time.Duration // the first token comes at 100 ms, the end at 300 ms
		ttft, cell string
	}{
		{"in prefill", 50 * time.Millisecond, "m", "m"},
		{"between tokens", 150 * time.Millisecond, "other", "m"},
		{"behind the end", 400 * time.Millisecond, "other", "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := script(`C("a")+u(2)@100 | C("b")+u(4)@200 | C("c")+u(6)@300 | D@300`)
			bubble(t, Config{Models: []string{"another"}}, sim.Always(sc), func(t *testing.T, w *world) {
				go func() {
					<-time.After(c.listed)
					w.p.metrics.SetModels([]string{"m"})
				}()
				w.say(chat())
				<-time.After(time.Second)
				for series, want := range map[string]string{
					`streamgauge_ttft_seconds_count{model="` + c.ttft + `"}`:                  "1",
					`streamgauge_tokens_total{model="` + c.ttft + `",channel="content"}`:      "6",
					`streamgauge_streams_active{model="` + c.ttft + `",upstream="engine:80"}`: "0",
					`streamgauge_streams_active{model="other",upstream="engine:80"}`:          "0",
				} {
					if got := w.metric(series); got != want {
						t.Errorf("%s: got %q, want %s", series, got, want)
					}
				}
				m := w.p.live.book.Matrix()
				if len(m.Cells) == 0 || m.Cells[0].Model != c.cell {
					t.Errorf("matrix %+v, want model %s", m.Cells, c.cell)
				}
			})
		})
	}
}

// TestMetricsAreLive: what a stream has told is there while it runs.
func TestMetricsAreLive(t *testing.T) {
	var in []string
	for i := range 100 {
		in = append(in, fmt.Sprintf(`C("a")+u(%d)@%d`, 2*(i+1), 100*(i+1)))
	}
	sc := script(strings.Join(in, " | "))
	sc.End = sim.Hang
	bubble(t, Config{}, sim.Always(sc), func(t *testing.T, w *world) {
		c, br := openStream(t, w, chat("X-Request-Id: live"), 0)
		defer c.Close()
		go func() { _, _ = io.Copy(io.Discard, br) }()
		<-time.After(5050 * time.Millisecond)
		for series, min := range map[string]float64{
			`streamgauge_ttft_seconds_count{model="m"}`:                  1,
			`streamgauge_event_gap_seconds_count{model="m"}`:             39,
			`streamgauge_tokens_total{model="m",channel="content"}`:      80,
			`streamgauge_inter_token_seconds_count{model="m"}`:           76,
			`streamgauge_added_delay_seconds_count`:                      49,
			`streamgauge_streams_active{model="m",upstream="engine:80"}`: 1,
		} {
			var got float64
			if _, err := fmt.Sscan(w.metric(series), &got); err != nil || got < min {
				t.Errorf("%s: got %v, want %v at least", series, got, min)
			}
		}
		var open []OpenStream
		if err := json.Unmarshal(w.ask("/streams").body, &open); err != nil || len(open) != 1 {
			t.Fatalf("/streams: %v, %d streams", err, len(open))
		}
		if s := open[0]; s.ID != "live" || s.Events != 49 && s.Events != 50 || s.TTFTNS.V != 100e6 || s.Upstream != "engine:80" {
			t.Errorf("/streams: got %+v", s)
		}
	})
}

// TestRate: a stream that was completed has a rate, the inverse of its record's time
// between tokens.
func TestRate(t *testing.T) {
	bubble(t, Config{}, sim.Always(script(r1)), func(t *testing.T, w *world) {
		w.say(chat())
		const rate = `streamgauge_request_tokens_per_second`
		var got float64
		_, err := fmt.Sscan(w.metric(rate+`_sum{model="m"}`), &got)
		want := 1e9 / w.record().TBTNS.V
		if n := w.metric(rate + `_count{model="m"}`); err != nil || n != "1" || math.Abs(got-want) > 1e-9*want {
			t.Errorf("got %s rates, together %v (%v), want one of %v", n, got, err, want)
		}
	})
}

// TestLeastLoaded sends to the upstream with the fewest open requests, and
// around one that cannot be reached.
func TestLeastLoaded(t *testing.T) {
	busy, idle, dead := loopbackListener(t), loopbackListener(t), loopbackListener(t)
	one := sim.ServeScript(busy, sim.Always(endless(5)))
	defer one.Close()
	two := sim.ServeScript(idle, sim.Always(endless(5)))
	defer two.Close()
	_ = dead.Close()
	var urls []string
	for _, ln := range []net.Listener{busy, dead, idle} {
		urls = append(urls, "http://"+ln.Addr().String())
	}
	w := sockets(t, Config{Upstreams: urls}, nil)
	defer w.close()
	for range 6 {
		c, _ := openStream(t, w, chat(), 100)
		defer c.Close()
	}
	if a, b := len(one.Played()), len(two.Played()); a != 3 || b != 3 {
		t.Errorf("got %d and %d streams, want 3 each", a, b)
	}
	var states []UpstreamState
	if err := json.Unmarshal(w.ask("/upstreams").body, &states); err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if want := s.Upstream != dead.Addr().String(); s.Failures > 0 == want {
			t.Errorf("%+v: want failures only of the one that is down", s)
		}
	}
}

// TestUpgrade joins the connections after a 101, and never gives the upgraded
// one to another request.
func TestUpgrade(t *testing.T) { onBothPaths(t, testUpgrade) }

func testUpgrade(t *testing.T, on path) {
	ln := loopbackListener(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			br := bufio.NewReader(c)
			var head strings.Builder
			for line := ""; line != "\r\n"; head.WriteString(line) {
				if line, err = br.ReadString('\n'); err != nil {
					break
				}
			}
			if !strings.Contains(head.String(), "Upgrade: websocket") || !strings.Contains(head.String(), "Connection: Upgrade") {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nplain")
				_ = c.Close()
				continue
			}
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nearly")
			line, _ := br.ReadString('\n')
			_, _ = io.WriteString(c, "echo "+line)
			_, _ = io.Copy(io.Discard, br) // until the client ends
			_ = c.Close()
		}
	}()
	defer func() { _ = ln.Close(); <-done }()
	w := sockets(t, on(Config{Upstreams: []string{"http://" + ln.Addr().String()}}), nil)
	defer w.close()
	c, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	// The first frame comes with the request: it is in the server's buffer.
	if _, err := io.WriteString(c, get("/v1/realtime", "Connection: keep-alive, Upgrade", "Upgrade: websocket")+"frame\n"); err != nil {
		t.Fatal(err)
	}
	want := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nearlyecho frame\n"
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("got %q (%v), want %q", got[:n], err, want)
	}
	_ = c.Close()
	if a := w.say(get("/x")); string(a.body) != "plain" {
		t.Errorf("the next request: got %q, want plain", a.body)
	}
	eventually(t, "both sides are closed", func() bool {
		return strings.Contains(string(w.ask("/upstreams").body), `"open_requests":0`)
	})
}

// TestR9: the engine closes idle connections. Requests at random moments must
// not fail for it.
func TestR9(t *testing.T) {
	t.Run("seen before use", func(t *testing.T) {
		sc := script(r1)
		sc.Idle = time.Second
		bubble(t, Config{UpstreamIdle: time.Hour}, sim.Always(sc), func(t *testing.T, w *world) {
			for range 3 {
				if a := w.say(chat()); a.err != nil || a.status != 200 {
					t.Fatalf("got %d (%v), want 200", a.status, a.err)
				}
				<-time.After(1500 * time.Millisecond)
			}
			for _, r := range w.records() {
				if r.End != stream.Completed || msOf(r.TTFTNS) != 500 {
					t.Errorf("record: got %s, ttft %v, want completed and 500 ms from the send that counted", r.End, msOf(r.TTFTNS))
				}
			}
		})
	})
	t.Run("2000 posts while the engine closes", func(t *testing.T) {
		sc := sim.Script{Framing: sim.ByLength, Header: []string{"Content-Type: application/json"},
			Writes: []sim.Write{{Bytes: []byte(`{}`)}}, Idle: 2 * time.Millisecond}
		w := sockets(t, Config{UpstreamIdle: time.Hour}, sim.Always(sc))
		defer w.close()
		var failed, sent int
		var mu sync.Mutex
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				c, err := w.dial()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				br := bufio.NewReader(c)
				for j := range 500 {
					// Gaps around the engine's idle limit, where the race is.
					<-time.After(time.Duration(1500+(i*997+j*313)%1000) * time.Microsecond)
					a := hear(t, c, br, post("/v1/embeddings", `{"input":"x"}`))
					mu.Lock()
					sent++
					if a.err != nil || a.status != 200 {
						failed++
						t.Logf("%d %v", a.status, a.err)
					}
					mu.Unlock()
					if a.err != nil {
						return
					}
				}
			})
		}
		clients.Wait()
		if failed != 0 || sent != 2000 {
			t.Errorf("%d of %d posts failed, want 0 of 2000", failed, sent)
		}
	})
	t.Run("R9b: reset after three tokens, no retry", func(t *testing.T) {
		sc := script(`C("a")@1 | C("b")@2 | C("c")@3`)
		sc.End, sc.EndAt = sim.Reset, 5*time.Millisecond
		w := sockets(t, Config{}, sim.Always(sc))
		defer w.close()
		if a := w.say(chat()); a.err == nil {
			t.Error("the client saw a clean end")
		}
		r := w.record()
		if r.End != stream.Failed || r.Reason != "reset" || r.Retries != 0 || r.Tokens != 3 {
			t.Errorf("record: got %s(%s), %d retries, %d tokens, want failed(reset), 0, 3", r.End, r.Reason, r.Retries, r.Tokens)
		}
		if n := len(w.up.Played()); n != 1 {
			t.Errorf("the upstream got %d requests, want 1", n)
		}
	})
}

// TestServeAfterShutdown returns instead of serving for ever.
func TestServeAfterShutdown(t *testing.T) {
	p, err := New(Config{Upstreams: []string{"http://127.0.0.1:1"}, ModelsEvery: -1}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, serve := range map[string]func(net.Listener) error{"data": p.Serve, "admin": p.ServeAdmin} {
		ln := loopbackListener(t)
		if err := serve(ln); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ln.Accept(); err == nil {
			t.Errorf("%s: the listener was left open", name)
		}
	}
}
