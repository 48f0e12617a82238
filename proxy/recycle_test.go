package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

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

// An observer that another request has had tells the same as a new one.
func TestRecycledObserver(t *testing.T) {
	delta := func(choice int, field, text, finish string) string {
		return fmt.Sprintf(`data: {"id":"x","model":"m","choices":[{"index":%d,"delta":{%q:%q},"finish_reason":%s}]}`+"\n\n", choice, field, text, finish)
	}
	bodies := map[string]string{
		"plain":       delta(0, "content", "one", "null") + delta(0, "content", " two", `"stop"`) + "data: [DONE]\n\n",
		"two choices": delta(0, "reasoning_content", "hm", "null") + delta(1, "content", "a", "null") + delta(0, "content", "b", "null") + delta(1, "content", "c", `"length"`),
		"looping":     strings.Repeat(delta(0, "content", "round and round it goes. ", "null"), 200),
		"failed":      delta(0, "content", "a", "null") + `data: {"error":{"message":"boom","type":"internal"}}` + "\n\n",
		"half":        delta(0, "content", "a", "null") + `data: {"id":`,
		"nothing":     "",
	}
	p, err := New(Config{Upstreams: []string{"http://engine:80"}, ModelsEvery: -1, Models: []string{"m"}}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	begin := func() *observer { return p.newObserver("id", "chat", "engine:80", wire.Chat) }
	want := map[string]string{}
	for name, body := range bodies {
		want[name] = ofObserver(begin(), body)
	}
	for before, first := range bodies {
		for name, body := range bodies {
			o := begin()
			for used := false; !used; { // a pool may forget, and does with -race
				ofObserver(o, first)
				o.recycle()
				again := begin()
				used, o = again == o, again
			}
			if got := ofObserver(o, body); got != want[name] {
				t.Errorf("%s behind %s: got\n%s\nwant\n%s", name, before, got, want[name])
			}
			p.observers = sync.Pool{}
		}
	}
}
