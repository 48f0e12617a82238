package sim

import (
	"strings"
	"testing"

	"github.com/valyala/fastjson"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`), true)
	f.Add([]byte(`{"prompt":[1,2,3],"max_tokens":-1,"n":1e9}`), false)
	f.Add([]byte(`{"messages":[{"content":[{"text":1}]},null]}`), true)
	f.Add([]byte(`[`), false)
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		var p fastjson.Parser
		req, fault := parse(&p, body, chat)
		switch {
		case (req == nil) == (fault == nil):
			t.Fatalf("request %v and fault %v", req, fault)
		case req != nil && (req.n < 1 || req.n > maxChoices || req.maxTokens < 0 || req.minTokens < 0):
			t.Fatalf("n %d, max_tokens %d, min_tokens %d", req.n, req.maxTokens, req.minTokens)
		}
	})
}

func FuzzNotation(f *testing.F) {
	f.Add(`ROLE@50 | C("a")@500 | FIN("length") U(10,3) D @541`)
	f.Add(`G("t") x64 every 10 from 300`)
	f.Add(`ev({"a":"\")"}) K({})+u(3) raw("\x00")`)
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "x") {
			return // repetitions may ask for any number of writes
		}
		w, err := ParseWrites(s)
		if err != nil && w != nil {
			t.Fatalf("%d writes with error %v", len(w), err)
		}
	})
}

// FuzzTokenizer: the pieces are the text, whatever the tokenizer.
func FuzzTokenizer(f *testing.F) {
	f.Add("The 12345 harbors, 漢字 and\n\xff more ", 3.1, true)
	f.Add(" a  b", 0.0, false)
	f.Add("\xff", 3.1, true) // the replacement character is longer than what it replaces
	f.Fuzz(func(t *testing.T, s string, per float64, han bool) {
		if per < 0.5 || per > 100 {
			per = 0
		}
		var b strings.Builder
		tok := Tokenizer{CharsPerToken: per, PerHan: han}
		tok.each(s, func(piece string) {
			if piece == "" {
				t.Fatal("empty token")
			}
			b.WriteString(piece)
		})
		if b.String() != s {
			t.Fatalf("tokens join to %q, want %q", b.String(), s)
		}
	})
}
