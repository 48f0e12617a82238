package proxy

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/metrics"
	"github.com/streamgauge/streamgauge/stamp"
)

// accessLog writes a line of JSON for requests that are over.
type accessLog struct {
	log   zerolog.Logger // to lines
	lines *Lines
	share float64
	seen  atomic.Uint64
	own   zerolog.Logger
}

func newAccessLog(w io.Writer, share float64, own zerolog.Logger) *accessLog {
	lines := NewLines(w)
	return &accessLog{log: zerolog.New(lines).With().Timestamp().Logger(), lines: lines, share: share, own: own}
}

// close writes what waits.
func (a *accessLog) close() {
	a.lines.Close()
	if n := a.lines.Dropped(); n > 0 {
		a.own.Warn().Int64("lines", n).Msg("access log: lines lost")
	}
}

// wants reports whether a request is in the sample, which takes evenly spaced
// ones. One that failed is always logged.
func (a *accessLog) wants(failed bool) bool {
	n := a.seen.Add(1)
	return failed || uint64(float64(n)*a.share) != uint64(float64(n-1)*a.share)
}

// line logs a request. Nothing that could hold a credential or a prompt is in
// it: the path is the route's name and the model a label.
func (a *accessLog) line(x *exchange, end string, now stamp.Instant) {
	if !a.wants(x.status == 0 || x.status >= 500 || end == "failed") {
		return
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	e := a.log.Log().Str("client", hostOf(x.client)).Str("method", x.method).Str("route", x.route)
	if x.backend != nil {
		e.Str("upstream", x.backend.name)
	}
	e.Int("status", x.status).Str("end", end).Float64("took_ms", ms(now.Sub(x.received))).Int("retries", x.retries)
	if o := x.obs; o != nil {
		e.Str("id", o.id)
		if m := o.model.Load(); m != nil {
			e.Str("model", m.Name)
		}
		if rec := o.record; rec != nil {
			e.Str("reason", string(rec.Reason)).Int("tokens", rec.Tokens)
			if rec.TTFTNS.OK {
				e.Float64("ttft_ms", ms(time.Duration(rec.TTFTNS.V)))
			}
			if rec.TBTNS.OK {
				e.Float64("tbt_ms", rec.TBTNS.V/1e6)
			}
			if len(rec.Loops) > 0 {
				e.Str("loop", rec.Loops[0].Verdict)
			}
		}
	}
	e.Send()
}

func hostOf(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.IP.String()
	}
	return ""
}

// methods are those that a log may name; a client may invent others.
var methods = []string{fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodPost, fasthttp.MethodPut, fasthttp.MethodPatch,
	fasthttp.MethodDelete, fasthttp.MethodConnect, fasthttp.MethodOptions, fasthttp.MethodTrace}

func knownMethod(m []byte) string {
	for _, k := range methods {
		if string(m) == k {
			return k
		}
	}
	return metrics.Other
}
