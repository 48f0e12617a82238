package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// told is one answer of the engine to a request for tokens, in its own words.
type told struct {
	id, path string
	status   int      // 0: the stream was ended before the answer began
	events   []saying // data of an event stream in its order, [DONE] too
	done     bool     // [DONE] came
	finish   string
	text     string
	prompt   int  // prompt_tokens, 0 while untold
	final    *int // completion_tokens of the usage that ends the answer
	bare     bool // that stood on an event of its own
}

// saying is one event of a stream. Its counts are of all events so far, 0 where
// the engine was not asked for them.
type saying struct {
	counted       int // tokens, by its usage or timings
	ids           int // tokens, by the lengths of its token_ids
	chars         int // code points of text
	before, after time.Time
}

func (e *saying) tokens() int { return cmp.Or(e.counted, e.ids) }

// count is the engine's last per-chunk count within the first n events.
func (s *told) count(n int) int {
	if n == 0 {
		return 0
	}
	return s.events[n-1].tokens()
}

// chunk is what is read of an event's JSON; the body of an answer that is not a
// stream has the same usage.
type chunk struct {
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		TokenIDs []int  `json:"token_ids"`
		Finish   string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Timings *struct {
		Cached    int `json:"cache_n"`
		Prompt    int `json:"prompt_n"`
		Predicted int `json:"predicted_n"`
	} `json:"timings"`
}

// readTape takes a connection apart: requests and responses alternate on it.
// Answers to anything but a POST for completions are passed over.
func readTape(asked, said []byte, marks []mark) ([]*told, error) {
	var out []*told
	requests := bufio.NewReader(bytes.NewReader(asked))
	at := 0
	for {
		req, err := http.ReadRequest(requests)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return out, nil // the rest was never sent
		}
		forTokens := req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/completions")
		s := &told{id: req.Header.Get("X-Request-Id"), path: req.URL.Path}
		head := bytes.Index(said[at:], []byte("\r\n\r\n"))
		if head < 0 {
			if forTokens {
				out = append(out, s) // ended before the answer began
			}
			return out, nil
		}
		head += at + 4
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(said[at:head])), req)
		if err != nil {
			return nil, err
		}
		b, err := bodyOf(resp, said, head)
		if err != nil {
			return nil, fmt.Errorf("answer to %s: %w", req.URL.Path, err)
		}
		if forTokens {
			s.status = resp.StatusCode
			if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
				err = s.listen(b, marks)
			} else if b.whole && s.status == http.StatusOK {
				err = s.hear(b.payload)
			}
			if err != nil {
				return nil, fmt.Errorf("answer to request %q: %w", s.id, err)
			}
			out = append(out, s)
		}
		if at = b.end; !b.whole {
			return out, nil
		}
	}
}

// body is a response body as far as it came.
type body struct {
	payload []byte
	pieces  []piece
	end     int // where the next response begins
	whole   bool
}

// piece says that the payload up to to ends at raw in the connection's bytes.
type piece struct{ to, raw int }

// bodyOf takes the body that begins at from out of its framing.
func bodyOf(resp *http.Response, said []byte, from int) (body, error) {
	if len(resp.TransferEncoding) == 0 {
		n := int(resp.ContentLength)
		if n < 0 {
			return body{}, errors.New("a body that ends with its connection")
		}
		end := min(from+n, len(said))
		return body{payload: said[from:end], pieces: []piece{{end - from, end}}, end: end, whole: end == from+n}, nil
	}
	var b body
	for at := from; ; {
		line, _, ok := bytes.Cut(said[at:], []byte("\r\n"))
		if !ok {
			return b, nil
		}
		n, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return b, fmt.Errorf("chunk size %q: %w", line, err)
		}
		at += len(line) + 2
		size := min(int(n), len(said)-at)
		b.payload = append(b.payload, said[at:at+size]...)
		b.pieces = append(b.pieces, piece{len(b.payload), at + size})
		if at += int(n) + 2; at > len(said) {
			return b, nil
		}
		if n == 0 {
			b.end, b.whole = at, true // these engines send no trailers
			return b, nil
		}
	}
}

// listen reads an event stream as these engines write it: one data line an event.
func (s *told) listen(b body, marks []mark) error {
	var text strings.Builder
	now := saying{}
	p, m := 0, 0
	for at := 0; ; {
		event, _, ok := bytes.Cut(b.payload[at:], []byte("\n\n"))
		if !ok {
			break
		}
		at += len(event) + 2
		for b.pieces[p].to < at {
			p++
		}
		raw := b.pieces[p].raw - (b.pieces[p].to - at)
		for marks[m].end < raw {
			m++
		}
		now.before, now.after = marks[m].before, marks[m].after
		data, ok := bytes.CutPrefix(event, []byte("data: "))
		if !ok || bytes.Contains(data, []byte("\n")) {
			return fmt.Errorf("event %q is not one line of data", event)
		}
		if string(data) == "[DONE]" {
			s.done = true
			s.events = append(s.events, now)
			continue
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("event %q: %w", event, err)
		}
		ends := len(c.Choices) == 0
		for _, ch := range c.Choices {
			text.WriteString(ch.Delta.Content + ch.Text)
			now.chars += len([]rune(ch.Delta.Content + ch.Text))
			now.ids += len(ch.TokenIDs)
			if ch.Finish != "" {
				s.finish, ends = ch.Finish, true
			}
		}
		if c.Usage != nil && ends {
			s.end(c.Usage.Completion, len(c.Choices) == 0)
		}
		if c.Usage != nil {
			now.counted, s.prompt = max(now.counted, c.Usage.Completion), c.Usage.Prompt
		}
		if c.Timings != nil {
			now.counted, s.prompt = max(now.counted, c.Timings.Predicted), c.Timings.Cached+c.Timings.Prompt
		}
		s.events = append(s.events, now)
	}
	s.text = text.String()
	return nil
}

// end notes a usage that ends something. One on an event without choices is of
// the whole answer, but llama-server sends one for each choice. One on a finish is
// all that its text completions have; elsewhere it is followed by the other.
func (s *told) end(tokens int, bare bool) {
	switch {
	case !bare:
		if !s.bare {
			s.final = &tokens
		}
		return
	case s.bare:
		tokens += *s.final
	}
	s.final, s.bare = &tokens, true
}

// hear reads an answer that is not a stream.
func (s *told) hear(payload []byte) error {
	var c chunk
	if err := json.Unmarshal(payload, &c); err != nil {
		return err
	}
	if c.Usage != nil {
		s.final, s.prompt, s.done = &c.Usage.Completion, c.Usage.Prompt, true
	}
	return nil
}
