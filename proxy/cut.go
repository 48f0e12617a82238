package proxy

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

// errRepeats ends an upstream whose stream is cut.
var errRepeats = errors.New("the stream repeats itself")

// loopTrailer is announced where a policy says tag. Its value is "none", or the
// first acting verdict: "confirmed; channel=content; choice=0; onset=31".
const loopTrailer = "X-Streamgauge-Loop"

// police settles what will be done if this response repeats itself. Only a body
// without a length can be ended early; out is the header of one in chunks, which
// can have trailers, else nil.
func (x *exchange) police(t *tap, out *fasthttp.ResponseHeader) {
	switch a := x.policy(); {
	case a == Cut && x.resp.ContentLength < 0:
		x.obs.cut = wire.NewCut(x.obs.dialect)
	case a == Tag:
		x.obs.action = Tag
		// It fails for names that no trailer may have; this one may.
		t.tag = out != nil && out.AddTrailer(loopTrailer) == nil
	}
}

// policy is what will be done if this response repeats itself.
func (x *exchange) policy() Action {
	rules := x.p.rules.Load()
	if x.obs == nil || x.status < 200 || x.status > 299 || !rules.acts() {
		return Observe
	}
	x.obs.facts.Wait() // the model's name; it is read while the request is sent
	a := rules.action(x.route, x.obs.modelName)
	if a == Cut && !slices.Contains(openaiRoutes, x.route) {
		return Observe // there is no end of our making in its dialect
	}
	return a
}

// due reports whether the stream is to be ended at the next end of an event.
func (o *observer) due() bool {
	return o.cut != nil && o.loops.Load() && !o.blind.Load() && o.cut.Open()
}

// cutRead is Read for streams with the policy cut. When a verdict has been
// reached, what is read goes out up to the end of its first event, and then,
// unless that was the engine's own end, ours follows.
func (t *tap) cutRead(p []byte) (n int, err error) {
	o := t.x.obs
	if !t.retired && o.due() && o.cut.Next(nil) == 0 {
		t.retire()
	}
	switch {
	case t.retired:
		if n, err = t.tail.Read(p); err != nil {
			t.err, t.whole = err, true
		}
		return n, err
	case len(t.spare) > 0:
		// The event before was the engine's last word after all.
		n = copy(p, t.spare)
		t.spare = t.spare[n:]
	default:
		n, err = t.x.resp.Read(p)
	}
	if n > 0 && o.due() {
		if i := o.cut.Next(p[:n]); i >= 0 && i < n {
			t.spare = append(bytes.Clone(p[i:n]), t.spare...)
			n = i
		}
	}
	return t.took(n, err)
}

// retire aborts the engine's request and makes the end that the client gets.
func (t *tap) retire() {
	o := t.x.obs
	t.x.resp.Cancel(errRepeats)
	t.retired, t.spare = true, nil
	o.action = Cut
	t.tail.Reset(o.cut.Append(nil, o.usage))
	t.x.p.log.Info().Str("id", o.id).Str("route", o.route).Str("model", o.model.Load().Name).Msg("the stream repeats itself, it was cut")
}

// tagEnd finishes the record, since some verdicts come with the end of a text,
// and sets the trailer. Without a record, since metering failed, there is none:
// a trailer without a value is not sent.
func (t *tap) tagEnd() {
	o := t.x.obs
	o.finish(stream.Cause{Kind: stream.EOF}, stamp.Now(), t.x.retries)
	if o.record != nil {
		t.header.Set(loopTrailer, verdict(o.record.Loops))
	}
}

// verdict is the trailer's value.
func verdict(loops []stream.Loop) string {
	for i := range loops {
		l := &loops[i]
		if !l.Acts() {
			continue
		}
		v := l.Verdict + "; channel=" + l.Channel + "; choice=" + strconv.Itoa(l.Choice)
		if l.Onset.OK {
			v += "; onset=" + strconv.FormatInt(l.Onset.V, 10)
		}
		return v
	}
	return "none"
}
