package stream

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/wire"
)

func TestEndings(t *testing.T) {
	boom := ev(`{"error":{"message":"boom"}}`)
	cause := errors.New("it broke")
	for _, v := range []struct {
		name   string
		bytes  string
		cause  Cause
		end    End
		reason string
	}{
		{"connection refused", "", Cause{Kind: Connect, Err: cause}, Failed, "connect"},
		{"no first token in time", role, Cause{Kind: TTFTTimeout}, Failed, "ttft_timeout"},
		{"reset after tokens", c("a"), Cause{Kind: Reset}, Failed, "reset"},
		{"reset behind the marker: the reply was whole", c("a") + fin("stop") + done, Cause{Kind: Reset}, Completed, ""},
		{"drain deadline", c("a"), Cause{Kind: Drained}, Failed, "drain"},
		{"window over", c("a"), Cause{Kind: Cancel, Reason: "window"}, Cancelled, "window"},
		{"window over behind the finish: the reply was whole", c("a") + fin("stop"), Cause{Kind: Cancel, Reason: "window"}, Completed, ""},
		{"window over, SGLang says abort: that was us", c("a") + fin("abort"), Cause{Kind: Cancel, Reason: "window"}, Cancelled, "window"},
		{"client gone mid-stream", c("a"), Cause{Kind: Gone}, ClientGone, ""},
		{"client gone behind the marker", c("a") + fin("stop") + done, Cause{Kind: Gone}, Completed, ""},
		{"client gone after an error event", c("a") + boom, Cause{Kind: Gone}, Failed, "in_band"},
		{"stall after an error event: the error came first", c("a") + boom, Cause{Kind: Stall}, Failed, "in_band"},
		{"an engine error with a finish before it", c("a") + fin("stop") + boom, Cause{Kind: EOF}, Failed, "in_band"},
		{"the engine's finish repetition", c("a") + fin("repetition") + done, Cause{Kind: EOF}, Looped, "engine"},
		{"the engine's stop reason", c("a") + inChoice(fin("stop"), `"stop_reason":"repetition_detected"`) + done, Cause{Kind: EOF}, Looped, "engine"},
		{"finish tool_calls completes", k(`{"tool_calls":[{"index":0,"function":{"name":"f"}}]}`) + fin("tool_calls") + done, Cause{Kind: EOF}, Completed, ""},
		{"an unknown finish completes", c("a") + fin("eos_token") + done, Cause{Kind: EOF}, Completed, ""},
		{"an HTML page", "<html><body>busy</body></html>", Cause{Kind: EOF}, Failed, "empty"},
		{"a bare JSON reply", `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}`, Cause{Kind: EOF}, Completed, ""},
	} {
		t.Run(v.name, func(t *testing.T) {
			r := measure([]write{{100, v.bytes}}, v.cause)
			if r.End != v.end || string(r.Reason) != v.reason {
				t.Errorf("end %s, reason %q; want %s, %q", r.End, r.Reason, v.end, v.reason)
			}
		})
	}
}

func TestHTTPStatus(t *testing.T) {
	for _, v := range []struct {
		name   string
		status int
		body   string
		words  bool
		want   string
	}{
		{"the server's words", 429, `{"error":{"message":"slow down","type":"rate_limit","code":429}}`, true, "HTTP status 429: rate_limit: 429: slow down"},
		{"its words may not be stored", 429, `{"error":{"message":"slow down","type":"rate_limit"}}`, false, "HTTP status 429: rate_limit"},
		{"a page", 503, "<html>\n<b>busy</b></html>", true, "HTTP status 503: <html> <b>busy</b></html>"},
		{"plain text", 502, "upstream connect error\n", true, "HTTP status 502: upstream connect error"},
		{"a redirect", 307, "", true, "HTTP status 307"},
		{"a key in the words", 401, `{"error":{"message":"Incorrect API key provided: sk-proj-abcd1234"}}`, true, "HTTP status 401: Incorrect API key provided: …"},
	} {
		t.Run(v.name, func(t *testing.T) {
			m := NewMeter(Options{Dialect: wire.Chat, StoreText: v.words})
			m.Sent(origin)
			m.Headers(v.status, ms(1))
			m.Observe([]byte(v.body), ms(2))
			r := m.Finish(Cause{Kind: EOF}, ms(3))
			if r.End != Failed || r.Reason != "http_status" || string(r.Error) != v.want {
				t.Errorf("%s(%s): %q; want failed(http_status): %q", r.End, r.Reason, r.Error, v.want)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	for _, v := range []struct{ name, text, want string }{
		{"OpenAI key", "key sk-proj-AbC_123-xyz is wrong", "key … is wrong"},
		{"masked key", "Incorrect API key provided: sk-1234****cdef.", "Incorrect API key provided: …"},
		{"bearer token", "header Authorization: Bearer abc.def-ghi refused", "header Authorization: Bearer … refused"},
		{"userinfo", "dial http://me:secret@host:80/x", "dial http://…host:80/x"},
		{"key in a query", "GET /v1/models?key=AIza123&x=1", "GET /v1/models?key=…&x=1"},
		{"api_key in a query", "GET /?api_key=abc", "GET /?api_key=…"},
		{"Hugging Face token", "hf_abcdefgh", "…"},
		{"token in a query", "GET /v1/models?x=1&access_token=abc", "GET /v1/models?x=1&access_token=…"},
		{"basic authentication", "Authorization: Basic bWU6aHVudGVyMmh1bnRlcg==", "Authorization: Basic …"},
		{"GitHub token", "ghp_abcdefgh", "…"},
		{"a basic fact is none", "basic attention is not supported", "basic attention is not supported"},
		{"nothing secret", "maximum context length is 4096 tokens", "maximum context length is 4096 tokens"},
	} {
		if got := Redact(v.text); got != v.want {
			t.Errorf("%s: got %q, want %q", v.name, got, v.want)
		}
	}
}

// A cut through the user info of a URL once left a password that nothing marked
// as one.
func TestErrorIsRedactedBeforeItIsCut(t *testing.T) {
	for pad := maxErrorText - 60; pad < maxErrorText; pad++ {
		m := NewMeter(Options{Dialect: wire.Chat, StoreText: true})
		m.Sent(origin)
		m.Headers(502, ms(1))
		m.Observe([]byte(strings.Repeat("x", pad)+" http://me:hunter2hunter2@10.0.0.1/v1"), ms(2))
		if r := m.Finish(Cause{Kind: EOF}, ms(3)); strings.Contains(string(r.Error), "hunter") || len(r.Error) > maxErrorText {
			t.Errorf("behind %d bytes: %q", pad, r.Error)
		}
	}
}

// A stream does not end before its last bytes came, whatever clock says so.
func TestEndIsNotBeforeTheLastRead(t *testing.T) {
	m := NewMeter(Options{Dialect: wire.Chat})
	m.Sent(origin)
	m.Headers(200, ms(1))
	m.Observe([]byte(c("a")), ms(100))
	if r := m.Finish(Cause{Kind: EOF}, ms(99)); r.EndNS != Some(int64(100e6)) {
		t.Errorf("end %+v, want that of the last read, 100 ms", r.EndNS)
	}
}

// Names and reasons of any length must not live on in a record.
func TestWordsAreBounded(t *testing.T) {
	long := strings.Repeat("w", 1<<20)
	r := measure([]write{{100, with(c("a"), `"model":"`+long+`"`)}, {110, fin(long) + done}}, Cause{Kind: EOF})
	if len(r.Finish) != maxWord || len(r.Model) != maxWord || r.End != Completed {
		t.Errorf("finish of %d bytes, model of %d, %s; want %d each, completed", len(r.Finish), len(r.Model), r.End, maxWord)
	}
}

func TestErrorIsOneShortLine(t *testing.T) {
	r := measure([]write{{100, ev(`{"error":{"message":"` + strings.Repeat(`漢\n`, 500) + `"}}`)}}, Cause{Kind: EOF})
	if len(r.Error) > maxErrorText+3 || strings.ContainsAny(string(r.Error), "\n\ufffd") {
		t.Errorf("error of %d bytes: %q", len(r.Error), r.Error)
	}
}

func TestFlags(t *testing.T) {
	for _, v := range []struct {
		name   string
		script []write
		want   string
	}{
		{"none", r1(role), ""},
		{"text behind the marker", append(r1(role), write{542, c("late")}), "after_marker"},
		{"a page is not seen", []write{{10, "<html>"}}, "blind"},
		{"reasoning tokens without reasoning text", []write{
			{10, c("a")}, {20, c("b")},
			{21, fin("stop") + ev(`{"choices":[],"usage":{"completion_tokens":40,"completion_tokens_details":{"reasoning_tokens":38}}}`) + done},
		}, "hidden_reasoning"},
		{"reasoning tokens with reasoning text", []write{
			{10, g("a")}, {20, c("b")},
			{21, fin("stop") + ev(`{"choices":[],"usage":{"completion_tokens":40,"completion_tokens_details":{"reasoning_tokens":38}}}`) + done},
		}, ""},
		{"the first event carries more than a tenth and 16", []write{
			{10, plus(c("a"), 20)}, {20, plus(c("b"), 21)}, {21, fin("stop") + u(10, 21) + done},
		}, "hidden_reasoning"},
		{"the first event carries 16", []write{
			{10, plus(c("a"), 16)}, {20, plus(c("b"), 17)}, {21, fin("stop") + u(10, 17) + done},
		}, ""},
		{"the first event carries 17", []write{
			{10, plus(c("a"), 17)}, {20, plus(c("b"), 18)}, {21, fin("stop") + u(10, 18) + done},
		}, "hidden_reasoning"},
		{"stamps that go back", []write{{10, c("a")}, {9, c("b")}, {21, fin("stop") + done}}, "stamp_order"},
	} {
		t.Run(v.name, func(t *testing.T) {
			r := measure(v.script, Cause{Kind: EOF})
			if got := strings.Join(r.Flags, " "); got != v.want {
				t.Errorf("flags %q, want %q", got, v.want)
			}
			if v.want == "hidden_reasoning" && r.TBTNS.OK {
				t.Errorf("tbt = %v, want null: the pace of hidden tokens is not known", r.TBTNS.V)
			}
		})
	}
}

// TestStampsOfAMixedStreamAreTheUsers: one read without a kernel stamp among a
// hundred makes the stream's instants no better than that one.
func TestStampsOfAMixedStreamAreTheUsers(t *testing.T) {
	m := NewMeter(Options{Dialect: wire.Chat})
	for _, tc := range []struct {
		name string
		src  []stamp.Source
		want string
	}{
		{"all by the kernel", []stamp.Source{stamp.Kernel, stamp.Kernel}, "kernel"},
		{"one without", []stamp.Source{stamp.Kernel, stamp.User, stamp.Kernel}, "user"},
		{"none told", nil, "user"},
	} {
		m.Reset(Options{Dialect: wire.Chat})
		for _, s := range tc.src {
			m.Stamps(s)
		}
		if got := m.Finish(Cause{Kind: EOF}, 1).Stamps; got != tc.want {
			t.Errorf("%s: stamps %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A record that is written over another one is the same as one of its own.
func TestFinishIntoAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got := records().Draw(t, "before")
		script := rapid.SampledFrom([][]write{
			{{100, c("a")}, {180, c("b")}, {181, fin("length") + u(10, 12) + done}},
			{{100, c(strings.Repeat("round and round it goes. ", 60))}},
			{{100, with(c("a"), `"model":"m"`)}, {120, ev(`{"error":{"message":"boom","type":"internal"}}`)}},
		}).Draw(t, "script")
		want := measure(script, Cause{Kind: EOF})
		m := NewMeter(Options{Dialect: wire.Chat, StoreText: true})
		play(m, script)
		m.FinishInto(&got, Cause{Kind: EOF}, ms(script[len(script)-1].at))
		got.SentRealNS, want.SentRealNS = Null[int64]{}, Null[int64]{} // by the clock's reading then
		if d := cmp.Diff(got, *want); d != "" {
			t.Fatalf("got - want +:\n%s", d)
		}
	})
}
