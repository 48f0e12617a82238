package wire

import (
	"bytes"
	"strings"
	"testing"
)

// decodeOnes reads a body whose reads end with its events, as Push does or, where
// One takes a read, by One; ones is the number of these.
func decodeOnes(d *Decoder, body []byte) (out []Event, ones int) {
	for _, p := range bytes.SplitAfter(body, []byte("\n\n")) {
		p = bytes.Clone(p) // a read is only valid until the next
		ev := d.One(p)
		if ev != nil {
			ones++
		} else {
			d.Push(p)
			ev = d.Next()
		}
		for ; ev != nil; ev = d.Next() {
			out = append(out, clone(ev))
		}
		clear(p)
	}
	if ev := d.Close(); ev != nil {
		out = append(out, clone(ev))
	}
	return out, ones
}

// A read of one event gives what the same bytes give in any other read.
func TestOne(t *testing.T) {
	bodies := map[string]struct {
		body    []byte
		dialect Dialect
		ones    int // at least
	}{
		"keep-alives":    {[]byte("data: " + content("a") + "\n\ndata: \n\ndata: : x\n\n: y\n\ndata: " + content("b") + "\n\n"), Chat, 1},
		"errors":         {[]byte("data: " + content("a") + "\n\nevent: error\ndata: \"x\"\n\nevent: error\n\ndata: " + content("b") + "\n\nerror: {}\n\n"), Chat, 1},
		"carriage":       {[]byte("data: " + content("a") + "\n\ndata: " + content("a\r") + "\n\ndata: 1\r\n\ndata: " + content("b") + "\n\n"), Chat, 1},
		"two lines":      {[]byte("data: {\ndata: }\n\ndata: " + content("b") + "\n\ndata: \n"), Chat, 1},
		"no space":       {[]byte("data: 1\n\ndata:" + content("b") + "\n\ndata:  " + content("c") + "\n\n"), Chat, 1},
		"too large":      {[]byte("data: 1\n\ndata: " + content(strings.Repeat("x", 1<<10)) + "\n\ndata: " + content("b") + "\n\n"), Chat, 1},
		"other heads":    {[]byte("data: " + content("a") + "\n\ndata: " + strings.Replace(content("b"), "{", `{"id":"other",`, 1) + "\n\ndata: " + content("c") + "\n\n"), Chat, 2},
		"not understood": {[]byte("<html>\n\ndata: " + content("a") + "\n\n"), Chat, 0},
	}
	for name, body := range captures(t) {
		v := bodies[name]
		v.body, v.dialect = body, dialectOf(name)
		bodies[name] = v
	}
	for name, v := range bodies {
		t.Run(name, func(t *testing.T) {
			limit := 1 << 20
			if name == "too large" {
				limit = 1 << 10
			}
			want, whole := decodeAs(t, v.dialect, limit, string(v.body))
			d := NewDecoder(v.dialect, limit)
			got, ones := decodeOnes(d, v.body)
			if diff := diff(got, want); diff != "" {
				t.Errorf("ones - whole +:\n%s", diff)
			}
			if d.Comments() != whole.Comments() || d.Blind() != whole.Blind() {
				t.Errorf("comments %d, blind %q; whole %d, %q", d.Comments(), d.Blind(), whole.Comments(), whole.Blind())
			}
			if ones < v.ones {
				t.Errorf("%d reads by One, want %d", ones, v.ones)
			}
		})
	}
}
