package wire

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// ends lists the offsets behind the blank lines of a body whose lines end with
// eol: the places where an event has ended.
func ends(body []byte, eol string) map[int]bool {
	out := map[int]bool{}
	blank := []byte(eol + eol)
	for i := 0; ; {
		j := bytes.Index(body[i:], blank)
		if j < 0 {
			return out
		}
		i += j + len(blank)
		out[i] = true
	}
}

// cutAt forwards body[:k] in random reads, then as far as Next says, and appends
// the end. It returns what a client gets, and where the cut was; -1 when there
// was nothing to cut.
func cutAt(t *testing.T, d Dialect, body []byte, k int, rng *rand.Rand, usage bool) (got []byte, at int) {
	t.Helper()
	c := NewCut(d)
	for rest := body[:k]; len(rest) > 0; {
		n := 1 + rng.IntN(len(rest))
		c.Follow(bytes.Clone(rest[:n]))
		rest = rest[n:]
	}
	if !c.Open() {
		return nil, -1
	}
	n := 0
	for c.Next(nil) != 0 {
		step := min(1+rng.IntN(400), len(body)-k-n)
		if step == 0 {
			return nil, -1
		}
		piece := body[k+n : k+n+step]
		if i := c.Next(piece); i >= 0 {
			piece = piece[:i]
		}
		c.Follow(bytes.Clone(piece))
		n += len(piece)
	}
	if !c.Open() {
		return nil, -1
	}
	return c.Append(bytes.Clone(body[:k+n]), usage), k + n
}

// TestCutEverywhere cuts every captured stream all over, the short ones at every
// offset: up to the next
// end of an event all bytes are the engine's, and what follows is an end that the
// decoder takes for one.
func TestCutEverywhere(t *testing.T) {
	for name, body := range captures(t) {
		if !strings.HasSuffix(name, ".sse") || len(body) > 64<<10 {
			continue
		}
		d := Chat
		if strings.Contains(name, "completions") {
			d = Completions
		}
		for _, eol := range []string{"\n", "\r\n", "\r"} {
			rng := rand.New(rand.NewPCG(1, uint64(len(eol))))
			body := bytes.ReplaceAll(body, []byte("\n"), []byte(eol))
			at := ends(body, eol)
			step := 1 + len(body)/60
			if len(body) < 1300 {
				step = 1
			}
			cuts := 0
			for k := 1; k < len(body); k += step {
				got, end := cutAt(t, d, body, k, rng, true)
				if end < 0 {
					continue
				}
				cuts++
				for i := k; i < end; i++ {
					if at[i] {
						t.Fatalf("%s %q: forwarded %d bytes, cut at %d, but an event ended at %d", name, eol, k, end, i)
					}
				}
				if !at[end] || !bytes.HasPrefix(got, body[:end]) {
					t.Fatalf("%s %q: cut at %d, which is no end of an event", name, eol, end)
				}
				tail := string(got[end:])
				if strings.Count(tail, eol+eol) != strings.Count(tail, "data: ") {
					t.Fatalf("%s: the lines of the end do not end with %q: %q", name, eol, tail)
				}
				check(t, name, string(body[:end]), tail)
			}
			if cuts == 0 && strings.Contains(name, "chat-usage") {
				t.Errorf("%s %q: nothing was cut", name, eol)
			}
		}
	}
}

// check holds the end of a cut stream to the chunks before it.
func check(t *testing.T, name, before, tail string) {
	t.Helper()
	events, _ := decode(t, 0, before, tail)
	told, _ := decode(t, 0, before)
	open := map[int]bool{}
	for _, ev := range told {
		for _, ch := range ev.Choices {
			open[ch.Index] = open[ch.Index] || true
			if ch.Finish != nil {
				open[ch.Index] = false
			}
		}
	}
	added := events[len(told):]
	if len(added) < 2 || added[len(added)-1].Kind != Done {
		t.Fatalf("%s: the end %q is no last chunk and [DONE]", name, tail)
	}
	for _, ev := range added[:len(added)-1] {
		if ev.Kind != Data || string(ev.ID) != string(told[0].ID) || string(ev.Model) != string(told[0].Model) {
			t.Fatalf("%s: %+v does not belong to the stream of %s", name, ev, told[0].ID)
		}
		for _, ch := range ev.Choices {
			if !open[ch.Index] || string(ch.Finish) != "repetition" || len(ch.Parts) != 0 {
				t.Fatalf("%s: last chunk %+v, open choices %v", name, ch, open)
			}
			open[ch.Index] = false
		}
	}
	for index, left := range open {
		if left {
			t.Fatalf("%s: choice %d was left open by %q", name, index, tail)
		}
	}
}

// TestCutBytes says how the end looks, byte for byte.
func TestCutBytes(t *testing.T) {
	const ident = `"id":"x","object":"chat.completion.chunk","created":7,"model":"m"`
	for _, c := range []struct {
		name    string
		dialect Dialect
		usage   bool
		body    string
		want    string // "" when there is nothing to cut
	}{
		{"chat", Chat, true, "data: {" + ident + `,"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n",
			"data: {" + ident + `,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"repetition"}]}` + "\n\ndata: [DONE]\n\n"},
		{"completions", Completions, true, `data: {"id":"x","choices":[{"index":0,"text":"a"}]}` + "\n\n",
			`data: {"id":"x","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"repetition"}]}` + "\n\ndata: [DONE]\n\n"},
		{"the counts are known and asked for", Chat, true,
			"data: {" + ident + `,"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n",
			"data: {" + ident + `,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"repetition"}]}` + "\n\n" +
				"data: {" + ident + `,"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\ndata: [DONE]\n\n"},
		{"known, not asked for", Chat, false,
			"data: {" + ident + `,"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":3}}` + "\n\n",
			"data: {" + ident + `,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"repetition"}]}` + "\n\ndata: [DONE]\n\n"},
		{"two choices, one finished; the counts of both are summed", Chat, true,
			`data: {"choices":[{"index":1,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3}}` + "\n\n" +
				`data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":4}}` + "\n\n",
			`data: {"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"repetition"}]}` + "\n\n" +
				`data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}` + "\n\ndata: [DONE]\n\n"},
		{"finished by itself, [DONE] is to come", Chat, true, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n", ""},
		{"over", Chat, true, "data: {" + ident + `,"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\ndata: [DONE]\n\n", ""},
		{"an error came", Chat, true, `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n" + `data: {"error":{"message":"x"}}` + "\n\n", ""},
		{"no event stream", Chat, true, `{"choices":[{"index":0,"message":{"content":"a"}}]}` + "\n\n", ""},
		{"a first event too large to look at; the second serves", Chat, true,
			`data: {"id":"y","prompt_token_ids":[` + strings.Repeat("1,", maxIdent/2) + `1],"choices":[{"index":0,"delta":{}}]}` + "\n\n" +
				`data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n",
			`data: {"id":"x","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"repetition"}]}` + "\n\ndata: [DONE]\n\n"},
	} {
		cut := NewCut(c.dialect)
		cut.Follow([]byte(c.body))
		var got string
		if cut.Open() && cut.Next(nil) == 0 {
			got = string(cut.Append(nil, c.usage))
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		for line := range strings.Lines(got) {
			if p, ok := strings.CutPrefix(strings.TrimSpace(line), "data: {"); ok && !json.Valid([]byte("{"+p)) {
				t.Errorf("%s: not JSON: %s", c.name, line)
			}
		}
	}
}
