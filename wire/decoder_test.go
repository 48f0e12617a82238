package wire

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decode is decodeAs for chat.
func decode(t testing.TB, maxEvent int, pieces ...string) ([]Event, *Decoder) {
	t.Helper()
	return decodeAs(t, Chat, maxEvent, pieces...)
}

// decodeAs returns the events of a body that comes in the given pieces, as deep
// copies, and the decoder.
func decodeAs(t testing.TB, dialect Dialect, maxEvent int, pieces ...string) ([]Event, *Decoder) {
	t.Helper()
	d := NewDecoder(dialect, maxEvent)
	var out []Event
	for _, p := range pieces {
		buf := []byte(p)
		d.Push(buf)
		for ev := d.Next(); ev != nil; ev = d.Next() {
			out = append(out, clone(ev))
		}
		// The bytes were the Decoder's only until here.
		for i := range buf {
			buf[i] = 0xAA
		}
	}
	if ev := d.Close(); ev != nil {
		out = append(out, clone(ev))
	}
	return out, d
}

// clone copies an event out of the decoder's buffers; empty becomes nil.
func clone(ev *Event) Event {
	c := *ev
	c.ID, c.Model = bytesOf(ev.ID), bytesOf(ev.Model)
	c.Choices = nil
	for _, ch := range ev.Choices {
		ch.Finish, ch.Stop = bytesOf(ch.Finish), bytesOf(ch.Stop)
		parts := ch.Parts
		ch.Parts = nil
		for _, p := range parts {
			p.Text = bytesOf(p.Text)
			ch.Parts = append(ch.Parts, p)
		}
		c.Choices = append(c.Choices, ch)
	}
	return c
}

func bytesOf(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

// diff is cmp.Diff for what is nearly always equal: most of a test's time would
// go into finding that out with cmp.
func diff(got, want []Event) string {
	if reflect.DeepEqual(got, want) {
		return ""
	}
	return cmp.Diff(got, want)
}

// texts returns the content texts and the kinds that are no data, in order.
func texts(events []Event) []string {
	var out []string
	for _, ev := range events {
		switch ev.Kind {
		case Done:
			out = append(out, "DONE")
		case Failure:
			out = append(out, "FAILURE "+ev.Error.Type+"|"+ev.Error.Code+"|"+ev.Error.Message)
		case Malformed:
			out = append(out, "MALFORMED")
		default:
			for _, ch := range ev.Choices {
				for _, p := range ch.Parts {
					out = append(out, string(p.Text))
				}
			}
		}
	}
	return out
}

func content(s string) string {
	return `{"choices":[{"index":0,"delta":{"content":"` + s + `"},"finish_reason":null}]}`
}

func TestFraming(t *testing.T) {
	a, b := content("a"), content("b")
	for _, c := range []struct {
		name string
		body string
		want []string
	}{
		{"LF, the form of every engine", "data: " + a + "\n\ndata: " + b + "\n\ndata: [DONE]\n\n", []string{"a", "b", "DONE"}},
		{"CRLF: sse-starlette's default", "data: " + a + "\r\n\r\ndata: " + b + "\r\n\r\n", []string{"a", "b"}},
		{"lone CR is a line end by the standard", "data: " + a + "\r\rdata: " + b + "\r\r", []string{"a", "b"}},
		{"mixed line ends in one body", "data: " + a + "\r\n\ndata: " + b + "\n\r\n", []string{"a", "b"}},
		{"no space behind the colon: Spring, Kimi", "data:" + a + "\n\ndata:[DONE]\n\n", []string{"a", "DONE"}},
		{"trailing space behind the JSON: TensorRT-LLM", "data: " + a + " \n\ndata: [DONE] \n\n", []string{"a", "DONE"}},
		{"byte order mark first", "\ufeffdata: " + a + "\n\n", []string{"a"}},
		{"blank lines first", "\n\r\n\ndata: " + a + "\n\n", []string{"a"}},
		{"comments between and inside events", ": ping\n\n:\n\ndata: " + a + "\n: inside\n\n: ping\n\n", []string{"a"}},
		{"event, id and retry lines before data", "event: message\nid: 7\nretry: 10\ndata: " + a + "\n\n", []string{"a"}},
		{"event line without data says nothing, nor does it stick", "event: error\n\ndata: " + a + "\n\n", []string{"a"}},
		{"bare field names", "data\n\nid\n\ndata: " + a + "\n\n", []string{"a"}},
		{"two data lines are joined by a line feed", "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"a\"}}]}\n\n", []string{"a"}},
		{"the LF of a CRLF ends no line of its own", "event: error\r\ndata: {\"message\":\r\ndata: \"boom\"}\r\n\r\n", []string{"FAILURE ||boom"}},
		{"empty data and wrapped keep-alives: gateways", "data:\n\ndata: \n\ndata: : keepalive\n\ndata: " + a + "\n\n", []string{"a"}},
		{"glued objects are malformed, what follows is read", "data: " + a + b + "\n\ndata: " + b + "\n\n", []string{"MALFORMED", "b"}},
		{"a lost blank line glues payloads", "data: " + a + "data: " + b + "\n\n", []string{"MALFORMED"}},
		{"not JSON", "data: hello\n\ndata: " + a + "\n\n", []string{"MALFORMED", "a"}},
		{"U+2028 and U+0085 end no line", "data: " + content("x\u2028y\u0085z") + "\n\n", []string{"x\u2028y\u0085z"}},
		{"escaped line feeds end no line", "data: " + content(`x\n\ny`) + "\n\n", []string{"x\n\ny"}},
		{"last event with one LF, then the end", "data: " + a + "\n\ndata: " + b + "\n", []string{"a", "b"}},
		{"last event without any LF", "data: " + a + "\n\ndata: " + b, []string{"a", "b"}},
		{"last event cut inside its JSON was not said", "data: " + a + "\n\ndata: " + b[:len(b)-3], []string{"a"}},
		{"error field of old llama.cpp", "data: " + a + "\n\nerror: {\"code\":500,\"message\":\"boom\",\"type\":\"server_error\"}\n\n", []string{"a", "FAILURE server_error|500|boom"}},
		{"event: error names data of any shape", "event: error\ndata: {\"message\":\"boom\",\"code\":\"x\"}\n\n", []string{"FAILURE |x|boom"}},
		{"event: error with text", "event: error\ndata: overloaded\n\n", []string{"FAILURE ||overloaded"}},
		{"event: error does not outlive its event", "event: error\ndata: {\"error\":\"x\"}\n\ndata: " + a + "\n\n", []string{"FAILURE ||x", "a"}},
		{"bare JSON although a stream was asked for", `{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`, []string{"a"}},
		{"bare JSON over several lines", "\n{\n \"choices\": [\n {\"text\": \"a}]\\\"\"}\n]\n}\n", []string{`a}]"`}},
		{"bare error object", `{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`, []string{"FAILURE BadRequestError|400|too long"}},
		{"bare JSON values in a row: NDJSON", a + "\n" + b + "\n", []string{"a", "b"}},
		{"garbage between bare values is told once", a + " oops\n" + b, []string{"a", "MALFORMED", "b"}},
		{"half a bare value was not said", a[:len(a)-2], nil},
		{"an HTML page", "<!DOCTYPE html><html>data: " + a + "\n\n</html>", nil},
		{"gzip", "\x1f\x8b\x08data: " + a + "\n\n", nil},
		{"nothing", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole, _ := decode(t, 0, c.body)
			if d := cmp.Diff(texts(whole), c.want); d != "" {
				t.Fatalf("got - want +:\n%s", d)
			}
			// Whatever the cut, a CR at its edge and half a character included.
			for i := 1; i < len(c.body); i++ {
				cut, _ := decode(t, 0, c.body[:i], c.body[i:])
				if d := diff(cut, whole); d != "" {
					t.Fatalf("cut at %d, got - whole +:\n%s", i, d)
				}
			}
			single, _ := decode(t, 0, strings.Split(c.body, "")...)
			if d := diff(single, whole); d != "" {
				t.Fatalf("character by character, got - whole +:\n%s", d)
			}
		})
	}
}

func TestCRAtReadEdgeCompletesTheEvent(t *testing.T) {
	d := NewDecoder(Chat, 0)
	d.Push([]byte("data: " + content("a") + "\r\n\r"))
	if ev := d.Next(); ev == nil {
		t.Fatal("the blank line ended with its CR, the event must not wait for the LF")
	}
	d.Push([]byte("\n"))
	if ev := d.Next(); ev != nil {
		t.Fatalf("the LF of a CRLF ended another line: %+v", ev)
	}
}

func TestUnterminated(t *testing.T) {
	events, _ := decode(t, 0, "data: "+content("a")+"\n\n", "data: "+content("b")+"\n")
	if len(events) != 2 {
		t.Fatalf("got %d events, want 2", len(events))
	}
	if events[0].Unterminated || !events[1].Unterminated {
		t.Errorf("Unterminated = %v, %v; want false, true", events[0].Unterminated, events[1].Unterminated)
	}
}

func TestComments(t *testing.T) {
	_, d := decode(t, 0, ": a\n\n:\ndata: : wrapped\n\ndata: "+content("a")+"\n\ndata:\n\n")
	if got, want := d.Comments(), 4; got != want {
		t.Errorf("Comments = %d, want %d", got, want)
	}
}

func TestBlind(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"a stream is seen", "data: " + content("a") + "\n\n", ""},
		{"comments alone are seen", ": ping\n\n", ""},
		{"a proxy's page", "<html>", "html"},
		{"gzip is not unpacked", "\x1f\x8b\x08\x00", "encoded"},
	} {
		if _, d := decode(t, 0, c.body); d.Blind() != c.want {
			t.Errorf("%s: Blind = %q, want %q", c.name, d.Blind(), c.want)
		}
	}
	d := NewDecoder(Unknown, 0)
	d.Push([]byte("data: " + content("a") + "\n\n"))
	if ev := d.Next(); ev != nil || d.Blind() != "dialect" {
		t.Errorf("unknown dialect: event %+v, Blind %q; want none and dialect", ev, d.Blind())
	}
}

// A Decoder that has read anything is like a new one after Reset.
func TestReset(t *testing.T) {
	call := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"id":"b","function":{"name":"f"}}]}}]}` + "\n\n"
	want, _ := decode(t, 0, call)
	d := NewDecoder(Chat, 1<<10)
	for _, before := range []string{
		strings.Replace(call, `"b"`, `"a"`, 1),
		"\xef", ": x\n\r", "event: error\n", "data: {", "data: " + strings.Repeat("x", 2000), `{"a":"\`, `{"a`, "<html>", "{}x", "error: x\n",
	} {
		d.Push([]byte(before))
		for d.Next() != nil {
		}
		d.Reset(Chat)
		if d.Blind() != "" || d.Comments() != 0 {
			t.Errorf("after %q: blind %q, %d comments", before, d.Blind(), d.Comments())
		}
		d.Push([]byte(call))
		ev := d.Next()
		if ev == nil {
			t.Errorf("after %q: no event", before)
			continue
		}
		if diff := cmp.Diff([]Event{clone(ev)}, want); diff != "" {
			t.Errorf("after %q: got - want +:\n%s", before, diff)
		}
		d.Reset(Chat)
	}
}

func TestPushBeforeDrained(t *testing.T) {
	d := NewDecoder(Chat, 0)
	d.Push([]byte("data: " + content("a") + "\n\ndata: "))
	var got []Event
	got = append(got, clone(d.Next()))
	d.Push([]byte(content("b") + "\n\n"))
	for ev := d.Next(); ev != nil; ev = d.Next() {
		got = append(got, clone(ev))
	}
	if d := cmp.Diff(texts(got), []string{"a", "b"}); d != "" {
		t.Errorf("got - want +:\n%s", d)
	}
}

func TestEventOfOneMiB(t *testing.T) {
	big := strings.Repeat("漢b\\n", 1<<20/6)
	body := "data: " + content(big) + "\n\ndata: " + content("b") + "\n\n"
	for _, pieces := range [][]string{{body}, chop(body, 4096), chop(body, 1448)} {
		events, d := decode(t, 0, pieces...)
		if len(events) != 2 || d.Blind() != "" {
			t.Fatalf("%d pieces: %d events, blind %q; want 2 and seeing", len(pieces), len(events), d.Blind())
		}
		if got, want := string(events[0].Choices[0].Parts[0].Text), strings.ReplaceAll(big, `\n`, "\n"); got != want {
			t.Errorf("%d pieces: text of %d bytes differs from that of %d sent", len(pieces), len(got), len(want))
		}
	}
}

func chop(s string, n int) (out []string) {
	for len(s) > n {
		out = append(out, s[:n])
		s = s[n:]
	}
	return append(out, s)
}

// A server that prepends 251K prompt_token_ids must not cost a parser value
// for each.
func TestPromptIDsAreNotParsed(t *testing.T) {
	ids := strings.Repeat("12345,", 251_000)
	body := `data: {"choices":[{"index":0,"delta":{"content":"a"},"token_ids":[1,2]}],"prompt_token_ids":[` + ids[:len(ids)-1] + `],"usage":{"completion_tokens":2}}` + "\n\n"
	events, d := decode(t, 0, chop(body, 64<<10)...)
	if len(events) != 1 || d.Blind() != "" {
		t.Fatalf("%d events, blind %q; want 1 and seeing", len(events), d.Blind())
	}
	if ev := events[0]; ev.Choices[0].TokenIDs != 2 || ev.Usage.CompletionTokens != 2 {
		t.Errorf("token_ids %d, usage %d; want 2 and 2", ev.Choices[0].TokenIDs, ev.Usage.CompletionTokens)
	}
	buf := []byte(body)
	if got := allocated(func() {
		dec := NewDecoder(Chat, 0)
		dec.Push(buf)
		for dec.Next() != nil {
		}
	}); got > 4<<20 {
		t.Errorf("reading it took %d bytes, want at most 4 MiB", got)
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLineOf100MB(t *testing.T) {
	const size = 100 << 20
	piece := []byte(strings.Repeat("x", 64<<10))
	for _, c := range []struct{ name, start string }{
		{"a data line without end", "data: {\"a\":\""},
		{"a comment without end", ": "},
		{"a field without a colon", "data"},
		{"a bare JSON string without end", "{\"a\":\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(Chat, 1<<20)
			malformed := 0
			read := func(p []byte) (last string) {
				d.Push(p)
				for ev := d.Next(); ev != nil; ev = d.Next() {
					if ev.Kind == Malformed {
						malformed++
					}
					for _, s := range texts([]Event{clone(ev)}) {
						last = s
					}
				}
				return last
			}
			got := allocated(func() {
				read([]byte(c.start))
				for n := 0; n < size; n += len(piece) {
					read(piece)
				}
			})
			if got > 16<<20 {
				t.Errorf("%d MB of input took %d bytes, want at most 16 MiB", size>>20, got)
			}
			if c.start[0] == '{' {
				if d.Blind() != "event_size" || malformed != 1 {
					t.Errorf("blind %q, malformed %d; want event_size and 1", d.Blind(), malformed)
				}
				return
			}
			// An event stream goes on behind the line.
			last := read([]byte("\n\ndata: " + content("b") + "\n\n"))
			if last != "b" {
				t.Errorf("event behind the line: %q, want b", last)
			}
			wantBlind, wantMalformed := "", 0
			if strings.HasPrefix(c.start, "data:") {
				wantBlind, wantMalformed = "event_size", 1
			}
			if d.Blind() != wantBlind || malformed != wantMalformed {
				t.Errorf("blind %q, malformed %d; want %q and %d", d.Blind(), malformed, wantBlind, wantMalformed)
			}
		})
	}
}

func TestSizeLimitIsOfTheEvent(t *testing.T) {
	body := content(strings.Repeat("x", 1000))
	for _, c := range []struct {
		name, body string
		max        int
		want       string
	}{
		{"one line at the limit", "data: " + body + "\n\n", len(body), ""},
		{"one line above it", "data: " + body + "\n\n", len(body) - 1, "event_size"},
		{"a bare value at the limit", body, len(body), ""},
		{"a bare value above it, also when it comes in one read", body, len(body) - 1, "event_size"},
		{"many short lines above it", strings.Repeat("data: 1\n", 200) + "\n", 300, "event_size"},
	} {
		for _, piece := range []int{7, 64, 1 << 20} {
			_, d := decode(t, c.max, chop(c.body, piece)...)
			if d.Blind() != c.want {
				t.Errorf("%s, pieces of %d: Blind = %q, want %q", c.name, piece, d.Blind(), c.want)
			}
		}
	}
}

// A read full of line ends must not be searched once per line end.
func TestManyLoneCRs(t *testing.T) {
	body := strings.Repeat("\r", 8<<20)
	d := NewDecoder(Chat, 0)
	d.body = lines
	d.Push([]byte(body))
	if ev := d.Next(); ev != nil {
		t.Fatalf("blank lines made an event: %+v", ev)
	}
}

func TestForPath(t *testing.T) {
	for _, c := range []struct {
		path string
		want Dialect
	}{
		{"/v1/chat/completions", Chat},
		{"/chat/completions?x=1", Chat},
		{"/deep/prefix/v1/completions", Completions},
		{"/v1/completions/render", Unknown},
		{"/v1/messages", Messages},
		{"/anthropic/v1/messages?beta=true", Messages},
		{"/v1/messages/count_tokens", Unknown},
		{"/v1/threads/t1/messages", Unknown},
		{"/v1/responses", Responses},
		{"/v1/responses/r1/cancel", Unknown},
		{"/api/chat", Ollama},
		{"/api/generate", Ollama},
		{"/generate", Unknown},
		{"/v1/models?next=/completions", Unknown},
		{"", Unknown},
	} {
		if got := ForPath([]byte(c.path)); got != c.want {
			t.Errorf("ForPath(%q) = %v, want %v", c.path, got, c.want)
		}
	}
}

func ExampleDecoder() {
	d := NewDecoder(Chat, 0)
	for _, read := range []string{
		`data: {"choices":[{"index":0,"delta":{"content":"Hel`,
		"lo\"}}]}\n\ndata: [DO",
		"NE]\n\n",
	} {
		d.Push([]byte(read))
		for ev := d.Next(); ev != nil; ev = d.Next() {
			switch ev.Kind {
			case Data:
				fmt.Printf("%s\n", ev.Choices[0].Parts[0].Text)
			case Done:
				fmt.Println("done")
			}
		}
	}
	d.Close()
	// Output:
	// Hello
	// done
}
