package sim

import (
	"testing"
	"time"
)

const usage = `,"stream_options":{"include_usage":true}`

func TestScheduleIsExact(t *testing.T) {
	p := plain()
	inBubble(t, p, Options{}, func(b *bench) {
		start := time.Now()
		a := b.do("POST", "/v1/chat/completions", chatBody(p, 100, 20, "one", usage), nil)
		if a.err != nil || a.status != 200 {
			t.Fatalf("status %d, error %v, body %s", a.status, a.err, a.body)
		}
		n := 0
		for _, e := range a.events {
			c := parseEvent(t, e)
			if len(c.Choices) == 0 || c.Choices[0].Delta.Content == "" {
				continue
			}
			want := 50*time.Millisecond + time.Duration(n)*10*time.Millisecond
			if got := e.at.Sub(start); got != want {
				t.Errorf("token %d at %v, want %v", n, got, want)
			}
			n++
		}
		if n != 20 {
			t.Errorf("%d token events, want 20", n)
		}
		r := b.srv.Truth().Requests()[0]
		if r.Prompt != 100 || r.Tokens != 20 || r.End != Length || r.Ended != 240*time.Millisecond {
			t.Errorf("truth: %+v", r)
		}
	})
}
