package wire

import (
	"testing"
)

// FuzzSplit holds that the events of any bytes do not depend on the reads they
// came in, and that nothing panics or grows beyond the limit.
func FuzzSplit(f *testing.F) {
	for name, body := range captures(f) {
		f.Add(body, uint16(len(body)/2), uint16(7), uint8(dialectOf(name)))
	}
	for _, v := range r31 {
		f.Add([]byte(v.body), uint16(len(v.body)/3), uint16(11), uint8(v.dialect))
	}
	for _, s := range []string{
		"\ufeffdata: " + content("a") + "\r\n\r\n: ping\n\ndata:[DONE]\r\r",
		"event: error\ndata: {\"error\":\"x\"}\n\nerror: {}\n\n",
		"{\"choices\":[{\"text\":\"a\"}]}\n{\"error\":{}}",
		"data: " + content("a") + content("b") + "\n\ndata: : x\n\ndata",
	} {
		f.Add([]byte(s), uint16(3), uint16(11), uint8(Chat))
	}
	f.Fuzz(func(t *testing.T, body []byte, cut, step uint16, kind uint8) {
		dialect := Dialect(kind % uint8(Ollama+1))
		const limit = 1 << 10
		whole, w := decodeAs(t, dialect, limit, string(body))
		at := min(int(cut), len(body))
		two, d := decodeAs(t, dialect, limit, string(body[:at]), string(body[at:]))
		if d := diff(two, whole); d != "" {
			t.Fatalf("cut at %d - whole +:\n%s", at, d)
		}
		if d.Comments() != w.Comments() || d.Blind() != w.Blind() {
			t.Fatalf("comments %d, blind %q; whole %d, %q", d.Comments(), d.Blind(), w.Comments(), w.Blind())
		}
		many, d := decodeAs(t, dialect, limit, chop(string(body), 1+int(step)%64)...)
		if d := diff(many, whole); d != "" {
			t.Fatalf("pieces - whole +:\n%s", d)
		}
		o := NewDecoder(dialect, limit)
		ones, _ := decodeOnes(o, body)
		if d := diff(ones, whole); d != "" {
			t.Fatalf("event by event - whole +:\n%s", d)
		}
		if o.Comments() != w.Comments() || o.Blind() != w.Blind() {
			t.Fatalf("comments %d, blind %q; whole %d, %q", o.Comments(), o.Blind(), w.Comments(), w.Blind())
		}
		if n := cap(d.line.bytes()) + cap(d.event.data.bytes()); n > 8*limit {
			t.Fatalf("buffers of %d bytes at a limit of %d", n, limit)
		}
	})
}

func FuzzRequestFacts(f *testing.F) {
	for _, s := range []string{`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, `{"a":"\\\"","b":[{}]}`, `{`, `{"a":1}x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { RequestFacts(Chat, body) })
}
