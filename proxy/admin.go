package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// ServeAdmin serves the admin port until Shutdown. Without a token it refuses
// an address that other hosts can reach.
func (p *Proxy) ServeAdmin(ln net.Listener) error {
	if p.cfg.AdminToken == "" && public(ln.Addr()) {
		_ = ln.Close()
		return fmt.Errorf("admin address %s can be reached from other hosts: give it a token or use loopback", ln.Addr())
	}
	if !p.listening(ln) {
		return nil
	}
	err := p.admin.Serve(patient{ln, p.faults})
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (p *Proxy) newAdmin() *fasthttp.Server {
	want := sha256.Sum256([]byte("Bearer " + p.cfg.AdminToken))
	return &fasthttp.Server{
		Name:                  "streamgauge",
		NoDefaultDate:         true,
		Logger:                quiet{p.log},
		ReadTimeout:           10 * time.Second,
		WriteTimeout:          time.Minute,
		IdleTimeout:           2 * time.Minute,
		MaxRequestBodySize:    1 << 10,
		ReadBufferSize:        64 << 10, // a query may name many ids
		Concurrency:           256,
		CloseOnShutdown:       true,
		SecureErrorLogMessage: true,
		Handler: func(ctx *fasthttp.RequestCtx) {
			path := string(ctx.Path())
			open := path == "/healthz" || path == "/readyz"
			if p.cfg.AdminToken != "" && !open {
				// Hashes have one length, so the compare says nothing about
				// the token's.
				got := sha256.Sum256(ctx.Request.Header.Peek("Authorization"))
				if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
					ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
					if path == "/" && (ctx.IsGet() || ctx.IsHead()) {
						// A browser cannot send the token when it opens a
						// page: this one asks for it, and holds no number.
						livePage.serve(ctx, fasthttp.StatusUnauthorized)
						return
					}
					say(ctx, fasthttp.StatusUnauthorized, "unauthorized\n")
					return
				}
			}
			if !ctx.IsGet() && !ctx.IsHead() {
				ctx.Response.Header.Set("Allow", "GET, HEAD")
				say(ctx, fasthttp.StatusMethodNotAllowed, "method not allowed\n")
				return
			}
			ctx.Response.Header.Set("Cache-Control", "no-store")
			p.serveAdmin(ctx, path)
		},
	}
}

func (p *Proxy) serveAdmin(ctx *fasthttp.RequestCtx, path string) {
	switch path {
	case "/":
		livePage.serve(ctx, fasthttp.StatusOK)
	case "/live":
		p.serveLive(ctx)
	case "/matrix":
		p.serveMatrix(ctx)
	case "/healthz":
		say(ctx, fasthttp.StatusOK, "ok\n")
	case "/readyz":
		if why := p.notReady(); why != "" {
			say(ctx, fasthttp.StatusServiceUnavailable, why+"\n")
			return
		}
		say(ctx, fasthttp.StatusOK, "ready\n")
	case "/metrics":
		ctx.SetContentType("text/plain; version=0.0.4; charset=utf-8")
		p.metrics.WritePrometheus(ctx)
	case "/records":
		p.serveRecords(ctx)
	case "/streams":
		writeJSON(ctx, p.openStreams())
	case "/upstreams":
		writeJSON(ctx, p.upstreamStates())
	case "/version":
		writeJSON(ctx, p.versionInfo())
	default:
		say(ctx, fasthttp.StatusNotFound, "not found\n")
	}
}

// say answers in plain text. Not ctx.Error: that brings the default Date back,
// with a goroutine that never ends.
func say(ctx *fasthttp.RequestCtx, status int, text string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text)
}

func writeJSON(ctx *fasthttp.RequestCtx, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		say(ctx, fasthttp.StatusInternalServerError, "cannot encode\n")
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(b, '\n'))
}

// The response headers of /records.
const (
	cursorHeader = "X-Streamgauge-Cursor" // what to give as since next
	lostHeader   = "X-Streamgauge-Lost"   // records overwritten before they were read
)

// serveRecords writes the records after ?since=, one JSON object a line. id=A,B
// keeps only those; events=1 adds each one's event_log. The body is written as
// it is encoded, so that a whole ring with its events is never held twice.
func (p *Proxy) serveRecords(ctx *fasthttp.RequestCtx) {
	args := ctx.QueryArgs()
	items, next, lost := p.ring.since(string(args.Peek("since")))
	events := args.GetBool("events")
	if ids := string(args.Peek("id")); ids != "" {
		want := map[string]bool{}
		for id := range strings.SplitSeq(ids, ",") {
			want[id] = true
		}
		kept := items[:0]
		for _, k := range items {
			if want[k.record().ID] {
				kept = append(kept, k)
			}
		}
		items = kept
	}
	ctx.SetContentType("application/x-ndjson")
	ctx.Response.Header.Set(cursorHeader, next)
	ctx.Response.Header.Set(lostHeader, strconv.FormatUint(lost, 10))
	ctx.SetBodyStream(&recordLines{items: items, events: events}, -1)
}

// recordLines is the body of /records.
type recordLines struct {
	items  []kept
	events bool
	line   []byte // of the current record
	rest   []byte // of line, not yet read
}

func (l *recordLines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if len(l.items) == 0 {
			return 0, io.EOF
		}
		read := kept.record
		if l.events {
			read = kept.whole
		}
		rec := read(l.items[0])
		l.items = l.items[1:]
		l.line = append(rec.Append(l.line[:0]), '\n')
		l.rest = l.line
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// OpenStream is a line of /streams: one observed request that is open.
type OpenStream struct {
	ID       string             `json:"id"`
	Route    string             `json:"route"`
	Model    string             `json:"model"` // as the label
	Upstream string             `json:"upstream"`
	AgeNS    int64              `json:"age_ns"`
	TTFTNS   stream.Null[int64] `json:"ttft_ns"`
	Events   int64              `json:"generated_events"`
	Tokens   int64              `json:"tokens"`
	// QuietNS is the time since the last generated event. Where an event loop carries
	// many streams it is up to half a second more than that, and Events, Tokens and
	// Loop are as late.
	QuietNS stream.Null[int64] `json:"quiet_ns"`
	Loop    bool               `json:"loop"`     // an acting verdict was reached
	Observe bool               `json:"observed"` // false after the meter failed
	Whole   bool               `json:"whole"`    // the reply was not asked for as a stream
}

func (p *Proxy) openStreams() []OpenStream {
	now := stamp.Now()
	p.openMu.Lock()
	open := slices.Collect(maps.Keys(p.open))
	p.openMu.Unlock()
	out := make([]OpenStream, 0, len(open))
	// New requests need the lock, hence a few at a time; of those that have ended
	// meanwhile the observers may be others'.
	for some := range slices.Chunk(open, 64) {
		p.openMu.Lock()
		for _, x := range some {
			if _, is := p.open[x]; !is {
				continue
			}
			if o := x.shown.Load(); o != nil {
				out = append(out, o.state(now))
			}
		}
		p.openMu.Unlock()
	}
	return out
}

// UpstreamState is an element of /upstreams.
type UpstreamState struct {
	Upstream string `json:"upstream"`
	Open     int64  `json:"open_requests"`
	Up       bool   `json:"up"`
	Failures int64  `json:"consecutive_failures"`
	InUse    int    `json:"connections_in_use"`
	Idle     int    `json:"connections_idle"`
}

func (p *Proxy) upstreamStates() []UpstreamState {
	out := make([]UpstreamState, 0, len(p.backends))
	now := stamp.Now()
	for _, b := range p.backends {
		out = append(out, b.state(now))
	}
	return out
}

// VersionInfo is /version; a load generator knows the proxy by it.
type VersionInfo struct {
	Streamgauge string `json:"streamgauge"` // "proxy"
	Version     string `json:"version"`
	Data        string `json:"data"`   // the data port's host:port
	Cursor      string `json:"cursor"` // of /records, now
	Stamps      string `json:"stamps"` // kernel or user, as configured
	Detect      bool   `json:"detect"`
}

func (p *Proxy) versionInfo() VersionInfo {
	v := VersionInfo{Streamgauge: "proxy", Version: p.cfg.Version, Data: p.dataAddr(),
		Stamps: stamp.Kernel.String(), Detect: !p.cfg.NoDetect}
	if p.cfg.UserStamps {
		v.Stamps = stamp.User.String()
	}
	_, v.Cursor, _ = p.ring.since("")
	return v
}
