package proxy

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/streamgauge/streamgauge/sim"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

// engineName names the upstream of observers that have none.
var engineName = "engine:80"

// ofObserver is all that an observer tells of a body, an event every ten
// milliseconds.
func ofObserver(o *observer, body string) string {
	at := stamp.Instant(1e9)
	o.begun = at
	o.learn([]byte(chatBody))
	o.sentAt(at)
	o.meter.Headers(200, at)
	for _, event := range strings.SplitAfter(body, "\n\n") {
		at += 10e6
		o.observe([]byte(event), at, stamp.Kernel)
	}
	open := o.state(at)
	end := o.finish(stream.Cause{Kind: stream.EOF}, at, 0)
	rec := *o.record
	rec.SentRealNS = stream.Null[int64]{} // by the clock's reading then
	return fmt.Sprintf("%+v\n%s\n%s", open, end, rec.Append(nil))
}

// delta is an event of a chat.
func delta(choice int, field, text, finish string) string {
	return fmt.Sprintf(`data: {"id":"x","model":"m","choices":[{"index":%d,"delta":{%q:%q},"finish_reason":%s}]}`+"\n\n", choice, field, text, finish)
}

// recycling is a proxy that serves nobody.
func recycling(t *testing.T) *Proxy {
	p, err := New(Config{Upstreams: []string{"http://engine:80"}, ModelsEvery: -1, Models: []string{"m"}}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// What a long stream needs is not kept: each observer would come to hold as much as
// the longest that it ever had.
func TestLongStreamIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		events int
		body   func(i int) string
	}{
		"a long text":  {20, func(i int) string { return delta(0, "content", strings.Repeat(strconv.Itoa(i*i)+" ", 1<<7), "null") }},
		"many events":  {600, func(int) string { return `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n" }},
		"many choices": {64, func(i int) string { return delta(i, "content", "", "null") }},
		"some choices": {keepSteps + 1, func(i int) string { return delta(i, "content", "a", "null") }},
	} {
		p := recycling(t)
		var long strings.Builder
		for i := range c.events {
			long.WriteString(c.body(i))
		}
		o := p.newObserver("id", "chat", &engineName, wire.Chat)
		ofObserver(o, long.String())
		o.recycle()
		for range 2 {
			again := p.newObserver("id", "chat", &engineName, wire.Chat)
			if again == o {
				t.Errorf("%s: an observer of %d bytes is kept", name, o.meter.Kept())
			}
			ofObserver(again, delta(0, "content", "short", `"stop"`)+"data: [DONE]\n\n")
			again.meter.Reset(p.meterOptions(wire.Chat))
			if n := again.meter.Kept(); n > keepMeter {
				t.Errorf("a short stream leaves %d bytes: more than is kept, %d", n, keepMeter)
			}
		}
	}
}

// An observer that another request has had tells the same as a new one.
func TestRecycledObserver(t *testing.T) {
	bodies := map[string]string{
		"plain":       delta(0, "content", "one", "null") + delta(0, "content", " two", `"stop"`) + "data: [DONE]\n\n",
		"two choices": delta(0, "reasoning_content", "hm", "null") + delta(1, "content", "a", "null") + delta(0, "content", "b", "null") + delta(1, "content", "c", `"length"`),
		"looping":     strings.Repeat(delta(0, "content", "round and round it goes. ", "null"), 60),
		"failed":      delta(0, "content", "a", "null") + `data: {"error":{"message":"boom","type":"internal"}}` + "\n\n",
		"half":        delta(0, "content", "a", "null") + `data: {"id":`,
		"nothing":     "",
	}
	p := recycling(t)
	begin := func() *observer { return p.newObserver("id", "chat", &engineName, wire.Chat) }
	want := map[string]string{}
	for name, body := range bodies {
		want[name] = ofObserver(begin(), body)
	}
	if !strings.Contains(want["looping"], `"loops":[{"verdict":`) {
		t.Errorf("no loop is found in what loops: %s", want["looping"])
	}
	for before, first := range bodies {
		for name, body := range bodies {
			o := begin()
			for tries := 0; ; tries++ { // a pool may forget, and does with -race
				ofObserver(o, first)
				o.recycle()
				again := begin()
				if again == o {
					break
				}
				if o = again; tries > 100 {
					t.Fatalf("the observer of %s is not used again", before)
				}
			}
			if got := ofObserver(o, body); got != want[name] {
				t.Errorf("%s behind %s: got\n%s\nwant\n%s", name, before, got, want[name])
			}
			p.observers = sync.Pool{}
		}
	}
}

// An exchange in the memory of another one tells the same as the first of its kind.
func TestRecycledExchange(t *testing.T) {
	kinds := []struct{ request, want string }{
		{chat("X-Request-Id: streamed"), "POST chat 200 completed  streamed m 2"},
		{post("/v1/completions", `{"model":"m","prompt":"a"}`, "X-Request-Id: cut"), "POST completions 200 truncated  cut m 1"},
		{post("/v1/completions", `{"model":"n","prompt":"a"}`, "X-Request-Id: busy"), "POST completions 429 failed http_status busy other 0"},
		{get("/v1/models"), "GET models 200 plain <nil> <nil> <nil> <nil>"},
	}
	var log lockedBuffer
	w := sockets(t, Config{AccessLog: &log}, func(_ int, p *sim.Played) sim.Script {
		switch p.Header.Get("X-Request-Id") {
		case "streamed":
			return script(`C("a") | C("b")@2 | FIN("stop") D @3`)
		case "cut":
			return sim.Script{Writes: []sim.Write{{Bytes: []byte(`data: {"choices":[{"index":0,"text":"a"}]}` + "\n\n")}}, End: sim.Drop}
		case "busy":
			return sim.Script{Status: 429, Framing: sim.ByLength, Writes: []sim.Write{{Bytes: []byte("{}")}}}
		}
		return sim.Script{Framing: sim.ByLength, Writes: []sim.Write{{Bytes: []byte("{}")}}}
	})
	defer w.close()
	var want []string
	for _, a := range kinds {
		for _, b := range kinds {
			w.say(a.request)
			w.say(b.request)
			want = append(want, a.want, b.want)
		}
	}
	w.shutdown()
	var got []string
	for _, l := range accessLines(t, &log) {
		got = append(got, fmt.Sprint(l["method"], " ", l["route"], " ", l["status"], " ", l["end"], " ", l["reason"], " ", l["id"], " ", l["model"], " ", l["tokens"]))
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("got - want +:\n%s", d)
	}
}
