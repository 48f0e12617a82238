package stream

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// Append appends the record as one JSON object, without a newline, to dst and
// returns it. For valid UTF-8 the bytes are those of encoding/json; docs/record.md
// shows a line.
func (r *Record) Append(dst []byte) []byte {
	l := line{append(dst, '{')}
	l.str("type", r.Type)
	l.int("v", int64(r.V))
	l.str("id", r.ID)
	l.int("context", int64(r.Context))
	l.int("concurrency", int64(r.Concurrency))
	l.int("slot", int64(r.Slot))
	l.int("seq", int64(r.Seq))
	l.str("phase", string(r.Phase))
	l.str("model", r.Model)
	l.str("dialect", r.Dialect)
	l.status(r.Status)
	l.null64("sent_ns", r.SentNS)
	l.null64("sent_mono_ns", r.SentMonoNS)
	l.null64("sent_real_ns", r.SentRealNS)
	l.null64("request_received_ns", r.RequestReceivedNS)
	l.null64("headers_ns", r.HeadersNS)
	l.null64("ttfe_ns", r.TTFENS)
	l.null64("ttft_ns", r.TTFTNS)
	l.null64("ttfv_ns", r.TTFVNS)
	l.null64("last_token_ns", r.LastTokenNS)
	l.null64("end_ns", r.EndNS)
	l.key("tbt_ns")
	if r.TBTNS.OK {
		l.b = appendFloat(l.b, r.TBTNS.V)
	} else {
		l.b = append(l.b, "null"...)
	}
	l.int("tokens", int64(r.Tokens))
	l.nullInt("first_tokens", r.FirstTokens)
	l.str("tokens_from", string(r.TokensFrom))
	l.nullInt("prompt_tokens", r.PromptTokens)
	l.nullInt("cached_tokens", r.CachedTokens)
	l.nullInt("reasoning_tokens", r.ReasoningTokens)
	l.int("events", int64(r.Events))
	l.int("generated_events", int64(r.GeneratedEvents))
	l.int("coalesced_events", int64(r.CoalescedEvents))
	l.gaps(&r.Gaps)
	l.window(r.Window)
	l.word("finish", r.Finish)
	l.str("end", string(r.End))
	l.word("reason", r.Reason)
	l.word("error", r.Error)
	l.str("stamps", r.Stamps)
	l.int("retries", int64(r.Retries))
	l.int("malformed", int64(r.Malformed))
	l.key("flags")
	l.b = append(l.b, '[')
	for i, f := range r.Flags {
		l.comma(i)
		l.b = appendString(l.b, f)
	}
	l.b = append(l.b, ']')
	l.key("loops")
	l.b = append(l.b, '[')
	for i := range r.Loops {
		l.comma(i)
		l.loop(&r.Loops[i])
	}
	l.b = append(l.b, ']')
	if r.Upstream != "" {
		l.str("upstream", r.Upstream)
	}
	if r.Route != "" {
		l.str("route", r.Route)
	}
	if r.IntendedNS.OK {
		l.null64("intended_ns", r.IntendedNS)
	}
	if len(r.EventLog) > 0 {
		l.key("event_log")
		l.b = append(l.b, '[')
		for i, e := range r.EventLog {
			l.comma(i)
			l.b = append(l.b, '[')
			l.b = strconv.AppendInt(l.b, e[0], 10)
			l.b = append(l.b, ',')
			l.b = strconv.AppendInt(l.b, e[1], 10)
			l.b = append(l.b, ',')
			l.b = strconv.AppendInt(l.b, e[2], 10)
			l.b = append(l.b, ']')
		}
		l.b = append(l.b, ']')
	}
	return append(l.b, '}')
}

// ParseRecord reads one line of a run file that is a record. Keys it does not
// know are skipped: later versions may add some.
func ParseRecord(p []byte) (*Record, error) {
	r := new(Record)
	if err := json.Unmarshal(p, r); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if r.Type != "record" || r.V != Version {
		return nil, fmt.Errorf("record: line is of type %q version %d, want record version %d", r.Type, r.V, Version)
	}
	return r, nil
}

// line is a JSON object in the making.
type line struct{ b []byte }

func (l *line) comma(i int) {
	if i > 0 {
		l.b = append(l.b, ',')
	}
}

func (l *line) key(k string) {
	if c := l.b[len(l.b)-1]; c != '{' {
		l.b = append(l.b, ',')
	}
	l.b = append(l.b, '"')
	l.b = append(l.b, k...)
	l.b = append(l.b, '"', ':')
}

func (l *line) str(k, v string) {
	l.key(k)
	l.b = appendString(l.b, v)
}

func (l *line) word(k string, v Word) {
	if v != "" {
		l.str(k, string(v))
		return
	}
	l.null(k)
}

func (l *line) status(v Code) {
	if v != 0 {
		l.int("status", int64(v))
		return
	}
	l.null("status")
}

func (l *line) null(k string) {
	l.key(k)
	l.b = append(l.b, "null"...)
}

func (l *line) int(k string, v int64) {
	l.key(k)
	l.b = strconv.AppendInt(l.b, v, 10)
}

func (l *line) float(k string, v float64) {
	l.key(k)
	l.b = appendFloat(l.b, v)
}

func (l *line) null64(k string, v Null[int64]) {
	l.key(k)
	if !v.OK {
		l.b = append(l.b, "null"...)
		return
	}
	l.b = strconv.AppendInt(l.b, v.V, 10)
}

func (l *line) nullInt(k string, v Null[int]) {
	l.null64(k, Null[int64]{V: int64(v.V), OK: v.OK})
}

func (l *line) gaps(g *Gaps) {
	l.key("gaps")
	l.b = append(l.b, '{')
	l.int("n", g.N)
	l.null64("min_ns", g.MinNS)
	l.null64("p50_ns", g.P50NS)
	l.null64("p90_ns", g.P90NS)
	l.null64("p99_ns", g.P99NS)
	l.null64("max_ns", g.MaxNS)
	l.b = append(l.b, '}')
}

func (l *line) window(w *Window) {
	l.key("window")
	if w == nil {
		l.b = append(l.b, "null"...)
		return
	}
	l.b = append(l.b, '{')
	l.float("tokens", w.Tokens)
	l.float("first_tokens", w.FirstTokens)
	l.null64("first_ns", w.FirstNS)
	l.null64("last_ns", w.LastNS)
	l.int("events", int64(w.Events))
	l.float("clean_tokens", w.CleanTokens)
	l.int("clean_ns", w.CleanNS)
	l.key("trimmed")
	l.b = strconv.AppendBool(l.b, w.Trimmed)
	l.b = append(l.b, '}')
}

func (l *line) loop(v *Loop) {
	l.b = append(l.b, '{')
	l.str("verdict", v.Verdict)
	l.str("channel", v.Channel)
	l.int("choice", int64(v.Choice))
	l.null64("onset", v.Onset)
	l.null64("period", v.Period)
	l.null64("cycles", v.Cycles)
	l.null64("confirmed_at", v.ConfirmedAt)
	l.null64("onset_token", v.OnsetToken)
	l.null64("onset_ns", v.OnsetNS)
	l.str("sha256", v.SHA256)
	if v.Excerpt != "" {
		l.str("excerpt", v.Excerpt)
	}
	l.b = append(l.b, '}')
}

// appendFloat writes f as encoding/json does. JSON has no word for what is not
// finite: it is undefined.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if n := len(b); format == 'e' && n-start >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

const hexDigits = "0123456789abcdef"

// appendString writes s as a JSON string. Invalid UTF-8 becomes U+FFFD as it
// stands, so that a line read and written again is the same; the two line
// separators of JavaScript are escaped, as encoding/json does.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		var r rune
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
			if !(r == utf8.RuneError && size == 1) && r != '\u2028' && r != '\u2029' {
				i += size
				continue
			}
		}
		b = append(b, s[start:i]...)
		i += size
		start = i
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\b':
			b = append(b, '\\', 'b')
		case c == '\f':
			b = append(b, '\\', 'f')
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case r == utf8.RuneError:
			b = append(b, "\ufffd"...)
		default:
			b = append(b, `\u202`...)
			b = append(b, hexDigits[r&15])
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
