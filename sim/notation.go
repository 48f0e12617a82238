package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The notation of test cases, for example
//
//	ROLE@50 | C("a")@500 | C("b")@520 | FIN("length") U(10,2) D @541
//
// is read as follows. Events stand side by side; | begins another write; @t
// anywhere in a write sets its time, t milliseconds after the request was read
// (without one it is the time of the write before).
//
//	ev(J)      data: J and a blank line
//	K(d)       a chat chunk with delta d
//	ROLE       K({"role":"assistant","content":""})
//	C("s")     K({"content":"s"})
//	G("s")     K({"reasoning_content":"s"})
//	G2("s")    K({"reasoning":"s"})
//	FIN("r")   K({}) with the finish reason r
//	U(p,c)     a usage chunk without choices
//	X+u(c)     event X with a usage object of 10 prompt and c completion tokens
//	D          data: [DONE] and a blank line
//	raw("…")   the bytes as they stand
//	X x64 every 10 from 300    64 writes of X, at 300, 310, … ms
//
// Strings are Go's; they are encoded anew as JSON. J and d are taken literally.

// ParseWrites reads writes in the notation above.
func ParseWrites(notation string) ([]Write, error) {
	p := notationParser{rest: notation}
	var writes []Write
	var at time.Duration
	var b []byte
	for {
		p.space()
		switch {
		case p.rest == "" || p.take("|"):
			if b != nil {
				writes = append(writes, Write{at, b})
				b = nil
			}
			if p.rest == "" {
				return writes, p.err
			}
		case p.take("@"):
			at = p.ms()
		default:
			e := p.event()
			p.space()
			if p.take("x") {
				n := p.number()
				p.word("every")
				step := p.ms()
				p.word("from")
				from := p.ms()
				for i := range int(n) {
					at = from + time.Duration(i)*step
					writes = append(writes, Write{at, e})
				}
				break
			}
			b = append(b, e...)
		}
		if p.err != nil {
			return nil, p.err
		}
	}
}

// MustWrites is ParseWrites for notation in the source: it panics on a mistake.
func MustWrites(notation string) []Write {
	w, err := ParseWrites(notation)
	if err != nil {
		panic(err)
	}
	return w
}

// MustBytes joins the bytes of all writes of a notation.
func MustBytes(notation string) []byte {
	var b []byte
	for _, w := range MustWrites(notation) {
		b = append(b, w.Bytes...)
	}
	return b
}

type notationParser struct {
	rest string
	err  error
}

func (p *notationParser) fail(what string) {
	if p.err == nil {
		p.err = fmt.Errorf("sim: notation: %s expected at %.30q", what, p.rest)
	}
	p.rest = ""
}

func (p *notationParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

func (p *notationParser) take(s string) bool {
	rest, ok := strings.CutPrefix(p.rest, s)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *notationParser) word(s string) {
	if p.space(); !p.take(s) {
		p.fail(s)
	}
}

func (p *notationParser) number() float64 {
	p.space()
	n := 0
	for n < len(p.rest) && (digit(p.rest[n]) || p.rest[n] == '.') {
		n++
	}
	f, err := strconv.ParseFloat(p.rest[:n], 64)
	if err != nil {
		p.fail("a number")
		return 0
	}
	p.rest = p.rest[n:]
	return f
}

func (p *notationParser) ms() time.Duration { return time.Duration(p.number() * 1e6) }

// text reads ("…").
func (p *notationParser) text() string {
	p.word("(")
	p.space()
	q, err := strconv.QuotedPrefix(p.rest)
	if err != nil {
		p.fail("a quoted string")
		return ""
	}
	p.rest = p.rest[len(q):]
	p.word(")")
	s, err := strconv.Unquote(q)
	if err != nil {
		p.fail("a quoted string")
	}
	return s
}

// literal reads (…) up to the parenthesis that closes it, outside of strings.
func (p *notationParser) literal() string {
	p.word("(")
	depth, quoted := 1, false
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				s := p.rest[:i]
				p.rest = p.rest[i+1:]
				return s
			}
		}
	}
	p.fail("a closing parenthesis")
	return ""
}

func (p *notationParser) event() []byte {
	var payload string
	switch {
	case p.take("raw"):
		return []byte(p.text())
	case p.take("ROLE"):
		payload = delta(`{"role":"assistant","content":""}`, "null")
	case p.take("FIN"):
		payload = delta("{}", quoted(p.text()))
	case p.take("G2"):
		payload = delta(`{"reasoning":`+quoted(p.text())+"}", "null")
	case p.take("G"):
		payload = delta(`{"reasoning_content":`+quoted(p.text())+"}", "null")
	case p.take("C"):
		payload = delta(`{"content":`+quoted(p.text())+"}", "null")
	case p.take("K"):
		payload = delta(p.literal(), "null")
	case p.take("ev"):
		payload = p.literal()
	case p.take("U"):
		p.word("(")
		prompt := int(p.number())
		p.word(",")
		completion := int(p.number())
		p.word(")")
		payload = `{"id":"r1","choices":[],` + usageObject(prompt, completion) + "}"
	case p.take("D"):
		payload = "[DONE]"
	default:
		p.fail("an event")
		return nil
	}
	if p.take("+u") {
		p.word("(")
		n := int(p.number())
		p.word(")")
		payload = strings.TrimSuffix(payload, "}") + "," + usageObject(10, n) + "}"
	}
	return []byte("data: " + payload + "\n\n")
}

func delta(d, finish string) string {
	return `{"id":"r1","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + d + `,"finish_reason":` + finish + `}]}`
}

func usageObject(prompt, completion int) string {
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, prompt, completion, prompt+completion)
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(b)
}
