package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"
)

// bench is a simulated engine inside a bubble and the way to reach it.
type bench struct {
	t    *testing.T
	srv  *Server
	ln   *fasthttputil.InmemoryListener
	done chan error
}

// inBubble runs f in a synctest bubble with an engine, and closes it behind.
func inBubble(t *testing.T, p Profile, o Options, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, srv: New(p, o), ln: fasthttputil.NewInmemoryListener(), done: make(chan error, 1)}
		go func() { b.done <- b.srv.Serve(b.ln) }()
		f(b)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-b.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-time.After(2 * time.Minute) // fasthttp's idle workers end
	})
}

// answer is what a trivial client saw of one response.
type answer struct {
	status int
	header string
	events []event // streams
	body   string  // else
	err    error
}

type event struct {
	at   time.Time
	data string
}

// do sends one request on its own connection and reads the response to its end,
// or until stop says so of an event.
func (b *bench) do(method, path, body string, stop func(event) bool) answer {
	c, err := b.ln.Dial()
	if err != nil {
		b.t.Error(err)
		return answer{err: err}
	}
	defer c.Close()
	return exchange(c, method, path, body, stop)
}

func exchange(c net.Conn, method, path, body string, stop func(event) bool, headers ...string) answer {
	var a answer
	extra := strings.Join(append(headers, ""), "\r\n")
	_, a.err = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: sim\r\n%sContent-Length: %d\r\n\r\n%s", method, path, extra, len(body), body)
	if a.err != nil {
		return a
	}
	r := bufio.NewReader(c)
	length := int64(0)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			a.err = err
			return a
		}
		a.header += line
		if line == "\r\n" {
			break
		}
		fmt.Sscanf(line, "HTTP/1.1 %d", &a.status)
		fmt.Sscanf(strings.ToLower(line), "content-length: %d", &length)
	}
	if !strings.Contains(a.header, "chunked") {
		raw := make([]byte, length)
		_, a.err = io.ReadFull(r, raw)
		a.body = string(raw)
		return a
	}
	var rest []byte
	for {
		var n int
		line, err := r.ReadString('\n')
		if err == nil {
			_, err = fmt.Sscanf(line, "%x", &n)
		}
		if err != nil {
			a.err = err
			return a
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(r, chunk); err != nil {
			a.err = err
			return a
		}
		if n == 0 {
			return a
		}
		now := time.Now()
		rest = append(rest, chunk[:n]...)
		for {
			i := bytes.Index(rest, []byte("\n\n"))
			if i < 0 {
				break
			}
			e := event{now, strings.TrimPrefix(string(rest[:i]), "data: ")}
			rest = rest[i+2:]
			a.events = append(a.events, e)
			if stop != nil && stop(e) {
				return a
			}
		}
	}
}

// chunk is the part of a streamed chat or completion event that tests look at.
type chunk struct {
	Choices []struct {
		Index int
		Text  string
		Delta struct {
			Content, Reasoning string
			ReasoningContent   string `json:"reasoning_content"`
		}
		FinishReason *string `json:"finish_reason"`
		TokenIDs     []int   `json:"token_ids"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error *struct{ Message string }
}

func parseEvent(t *testing.T, e event) chunk {
	t.Helper()
	var c chunk
	if e.data == "[DONE]" {
		return c
	}
	if err := json.Unmarshal([]byte(e.data), &c); err != nil {
		t.Errorf("event %q: %v", e.data, err)
	}
	return c
}

// text joins what one choice said.
func (a answer) text(t *testing.T, index int) string {
	var s strings.Builder
	for _, e := range a.events {
		for _, c := range parseEvent(t, e).Choices {
			if c.Index == index {
				s.WriteString(c.Text + c.Delta.Content + c.Delta.Reasoning + c.Delta.ReasoningContent)
			}
		}
	}
	return s.String()
}

// chatBody is a streaming chat request with a prompt of exactly so many tokens.
func chatBody(p Profile, tokens, maxTokens int, salt string, more string) string {
	head := fmt.Sprintf("%s ", salt)
	empty := "<user>\n" + head + "\n<assistant>\n"
	missing := tokens - p.Tokenizer.count(empty) - p.Tokenizer.Extra
	content := head
	if missing > 0 {
		// head ends in a space, which the first filler word takes over.
		content = salt + strings.Repeat(" word", missing+1)
	}
	raw, _ := json.Marshal(content)
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%s}],"stream":true,"max_tokens":%d%s}`, p.Model, raw, maxTokens, more)
}
