package loadgen

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

const (
	joinWait    = 2 * time.Second // for records of streams that have just ended
	joinPoll    = 100 * time.Millisecond
	adminWait   = 5 * time.Second
	adminHurry  = time.Second           // when the run has been interrupted
	sameHost    = 10 * time.Millisecond // between two readings of one host's clocks
	maxLine     = 64 << 20
	cursorField = "X-Streamgauge-Cursor" // of /records: where the next reading begins
	proxyStamps = "proxy:"               // in front of the proxy's own word in Record.Stamps
)

// proxyRecords pulls the records of our proxy for the streams of a cell.
type proxyRecords struct {
	base   string // admin address
	name   string // "proxy VERSION at DATA", for the header
	data   string // host:port of its data port, "" unknown
	http   *http.Client
	cursor string
}

// findProxy asks the admin port who it is.
func findProxy(ctx context.Context, base string, transport http.RoundTripper) (*proxyRecords, error) {
	p := &proxyRecords{base: strings.TrimRight(base, "/"), http: &http.Client{Transport: transport}}
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	resp, err := p.get(ctx, "/version")
	if err != nil {
		return nil, fmt.Errorf("proxy admin port: %w", err)
	}
	defer resp.Body.Close()
	var v struct{ Streamgauge, Version, Data, Cursor string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&v); err != nil || v.Streamgauge != "proxy" {
		return nil, fmt.Errorf("proxy admin port: %s/version is not that of our proxy", p.base)
	}
	p.name, p.cursor = fmt.Sprintf("proxy %s at %s", v.Version, v.Data), v.Cursor
	p.data = v.Data
	return p, nil
}

func (p *proxyRecords) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, engine.NoAnswer(nil, p.base, err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s%s answered %s", p.base, path, resp.Status)
	}
	return resp, nil
}

// pull reads the records that came since the last pull, until those wanted are
// there or joinWait is over: the proxy ends a stream's record when it notices
// that we left.
func (p *proxyRecords) pull(ctx context.Context, want map[string]bool) (map[string]*stream.Record, error) {
	wait := adminWait
	if ctx.Err() != nil {
		wait = adminHurry
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	got := make(map[string]*stream.Record, len(want))
	deadline := stamp.Now().Add(joinWait)
	for {
		err := p.read(ctx, func(rec *stream.Record) {
			if want[rec.ID] {
				got[rec.ID] = rec
			}
		})
		if err != nil {
			return got, err
		}
		if len(got) == len(want) || stamp.Now() >= deadline || !sleep(ctx, joinPoll) {
			return got, nil
		}
	}
}

// read visits the records since the last reading.
func (p *proxyRecords) read(ctx context.Context, visit func(*stream.Record)) error {
	resp, err := p.get(ctx, "/records?events=1&since="+p.cursor)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		rec, err := stream.ParseRecord(lines.Bytes())
		if err != nil {
			return fmt.Errorf("a line of %s/records: %w", p.base, err)
		}
		visit(rec)
	}
	if next := resp.Header.Get(cursorField); next != "" {
		p.cursor = next
	}
	return lines.Err()
}

// outOfPath is the sentence for a proxy that the requests to server do not pass,
// "" when they do. Its data port may have another name than the one we use (a
// container, a balancer in front), so only the lack of a record of what was just
// sent says that it is elsewhere.
func (p *proxyRecords) outOfPath(ctx context.Context, server string) string {
	if p.data == "" || sameAddress(p.data, server) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	seen := false
	for deadline := stamp.Now().Add(joinWait); ; {
		// A port that gives no records shows in each cell.
		if err := p.read(ctx, func(*stream.Record) { seen = true }); err != nil || seen {
			return ""
		}
		if stamp.Now() >= deadline || !sleep(ctx, joinPoll) {
			break
		}
	}
	if ctx.Err() != nil {
		return ""
	}
	return fmt.Sprintf("the proxy of --proxy-admin serves %s and has no record of the request just sent to %s: "+
		"it is not in the path, and its readings will be missing", p.data, server)
}

// sameAddress reports whether a server's URL names the listener at hostport, as
// far as their words tell; a listener without a host has them all.
func sameAddress(hostport, server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	at := u.Port()
	if at == "" {
		at = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ip := net.ParseIP(host)
	return port == at && (host == "" || ip.IsUnspecified() || host == u.Hostname() || ip.IsLoopback() && u.Hostname() == "localhost")
}

// join replaces the instants, counts and gaps of each stream by those that the
// proxy took, on our clock. Streams without a usable record keep their own.
func (p *proxyRecords) join(ctx context.Context, lives []*life) (joined, missing int, fault string) {
	want := make(map[string]bool, len(lives))
	for _, l := range lives {
		if l.sent != 0 {
			want[l.rec.ID] = true
		}
	}
	got, err := p.pull(ctx, want)
	if err != nil {
		fault = err.Error()
	}
	offset := offsetOf(lives, got)
	for _, l := range lives {
		rec := got[l.rec.ID]
		switch {
		case l.sent == 0: // it never got to the server
		case rec != nil && !rec.SentMonoNS.OK && len(l.log) == 0:
			joined++ // it got to the proxy and, ended by us, no further: there is nothing to adopt
		case rec == nil || !rec.SentMonoNS.OK || len(rec.EventLog) != rec.GeneratedEvents:
			missing++
		default:
			l.adopt(rec, offset)
			joined++
		}
	}
	return joined, missing, fault
}

// offsetOf is what to add to the proxy's instants to get ours. On one host both
// clocks are CLOCK_MONOTONIC, which shows in their distance to the wall clock;
// else it is the least time by which we saw an event later than the proxy.
func offsetOf(lives []*life, got map[string]*stream.Record) stamp.Instant {
	least, have := stamp.Instant(0), false
	for _, l := range lives {
		rec := got[l.rec.ID]
		if rec == nil || !rec.SentMonoNS.OK {
			continue
		}
		if rec.SentRealNS.OK && l.rec.SentRealNS.OK && l.rec.SentMonoNS.OK {
			ours, theirs := l.rec.SentRealNS.V-l.rec.SentMonoNS.V, rec.SentRealNS.V-rec.SentMonoNS.V
			if d := ours - theirs; d < int64(sameHost) && d > -int64(sameHost) {
				return 0
			}
		}
		take := func(ours, theirs stamp.Instant) {
			if d := ours - theirs; !have || d < least {
				least, have = d, true
			}
		}
		if l.rec.TTFTNS.OK && rec.TTFTNS.OK { // all there is of a prefill sample
			take(l.sent+stamp.Instant(l.rec.TTFTNS.V), stamp.Instant(rec.SentMonoNS.V+rec.TTFTNS.V))
		}
		for i := range min(len(l.log), len(rec.EventLog)) {
			take(l.log[i].At, stamp.Instant(rec.SentMonoNS.V+rec.EventLog[i][0]))
		}
	}
	return least
}

// adopt takes the proxy's view of the stream. How it ended for us stays: to the
// proxy, a stream that we cut is a client that left.
func (l *life) adopt(p *stream.Record, offset stamp.Instant) {
	sent := stamp.Instant(p.SentMonoNS.V) + offset
	shift := int64(sent - l.sent)
	l.log = stream.LogOf(p, sent)
	if l.onset < clean {
		l.onset = min(l.onset, len(l.log))
		if i := slices.IndexFunc(p.Loops, stream.Loop.Acts); i >= 0 && p.Loops[i].OnsetNS.OK {
			l.onset = stream.OnsetIn(l.log, sent.Add(time.Duration(p.Loops[i].OnsetNS.V)))
		}
	}
	r := l.rec
	if p.EndNS.OK && r.End == stream.Completed {
		l.end = sent.Add(time.Duration(p.EndNS.V))
		r.EndNS = p.EndNS
	} else {
		r.EndNS.V -= shift
	}
	l.sent = sent
	r.SentNS.V += shift
	r.SentMonoNS.V, r.SentRealNS.V = r.SentMonoNS.V+shift, r.SentRealNS.V+shift
	r.RequestReceivedNS = p.RequestReceivedNS
	r.HeadersNS, r.TTFENS, r.TTFTNS, r.TTFVNS, r.LastTokenNS = p.HeadersNS, p.TTFENS, p.TTFTNS, p.TTFVNS, p.LastTokenNS
	r.TBTNS, r.Tokens, r.FirstTokens, r.TokensFrom = p.TBTNS, p.Tokens, p.FirstTokens, p.TokensFrom
	r.Events, r.GeneratedEvents, r.CoalescedEvents, r.Gaps = p.Events, p.GeneratedEvents, p.CoalescedEvents, p.Gaps
	r.Stamps = proxyStamps + p.Stamps
	r.Upstream, r.Route = p.Upstream, p.Route
}

// clone copies a stream so that its window part can be counted twice.
func (l *life) clone() *life {
	c := *l
	rec := *l.rec
	c.rec = &rec
	c.log = slices.Clone(l.log)
	return &c
}

// diff sets our own reading beside the proxy's, of the same streams.
func diff(mine, theirs [][]*life, alone *matrix.Cell, joined, missing int) *matrix.ProxyDiff {
	d := &matrix.ProxyDiff{
		Joined: joined, Missing: missing,
		OwnTTFT: alone.TTFTMS, OwnTBT: alone.TBTMS, OwnTotal: alone.TotalTokS,
	}
	var ttft, tbt []float64
	for i := range mine {
		for j, m := range mine[i] {
			p := theirs[i][j].rec
			if !strings.HasPrefix(p.Stamps, proxyStamps) {
				continue
			}
			if m.rec.TTFTNS.OK && p.TTFTNS.OK && p.Seq == 0 {
				ttft = append(ttft, float64(m.rec.TTFTNS.V-p.TTFTNS.V)/1e6)
			}
			if m.rec.TBTNS.OK && p.TBTNS.OK {
				tbt = append(tbt, (m.rec.TBTNS.V-p.TBTNS.V)/1e6)
			}
		}
	}
	d.TTFTMS, d.TBTMS = middle(ttft), middle(tbt)
	return d
}

// middle is the median, null of nothing.
func middle(v []float64) stream.Null[float64] {
	if len(v) == 0 {
		return stream.Null[float64]{}
	}
	slices.Sort(v)
	n := len(v)
	return stream.Some((v[(n-1)/2] + v[n/2]) / 2)
}
