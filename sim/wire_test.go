package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// capture is one recorded exchange of a real engine.
type capture struct {
	method, path, body string
	raw                []byte // the response as received
}

var recvLine = regexp.MustCompile(`(?m)^\+[\d.]+ #\d+ \d+B b(['"])(.*)['"]$`)

func readCapture(t *testing.T, file string) capture {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	request, _, _ := strings.Cut(strings.TrimPrefix(string(b), "### request\n"), "\n### recv()")
	request = strings.ReplaceAll(request, "\r\n", "\n")
	head, body, _ := strings.Cut(request, "\n\n")
	var c capture
	fmt.Sscanf(head, "%s %s", &c.method, &c.path)
	c.body = strings.TrimSuffix(body, "\n")
	received, _, _ := strings.Cut(string(b), "\n### end")
	for _, m := range recvLine.FindAllStringSubmatch(received, -1) {
		c.raw = append(c.raw, pythonBytes(t, m[2])...)
	}
	if len(c.raw) == 0 {
		t.Fatalf("%s: no bytes received", file)
	}
	return c
}

// pythonBytes reads the inside of a Python bytes literal.
func pythonBytes(t *testing.T, s string) []byte {
	t.Helper()
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'r':
			b = append(b, '\r')
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		case 'x':
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, byte(n))
			i += 2
		default:
			b = append(b, s[i])
		}
	}
	return b
}

// shapeOf describes a response: status, content type, and each HTTP chunk by
// the shapes of its events. Runs of equal chunks are one line, for the number
// of tokens in a chunk differs.
func shapeOf(t *testing.T, raw []byte) []string {
	t.Helper()
	head, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	lower := strings.ToLower(string(head))
	status, _, _ := strings.Cut(string(head), "\r\n")
	kind := regexp.MustCompile(`content-type: *([^\r]*)`).FindStringSubmatch(lower)
	out := []string{status}
	if kind != nil && len(body) > 0 {
		out = append(out, kind[1])
	}
	if !strings.Contains(lower, "transfer-encoding: chunked") {
		return append(out, jsonShape(t, body))
	}
	for len(body) > 0 {
		size, rest, ok := bytes.Cut(body, []byte("\r\n"))
		n, err := strconv.ParseUint(string(size), 16, 32)
		if !ok || err != nil {
			t.Fatalf("chunk size %q", size)
		}
		if n == 0 {
			break
		}
		var events []string
		for e := range strings.SplitSeq(strings.TrimSuffix(string(rest[:n]), "\n\n"), "\n\n") {
			payload := strings.TrimPrefix(e, "data: ")
			if payload == "[DONE]" {
				events = append(events, payload)
			} else {
				events = append(events, jsonShape(t, []byte(payload)))
			}
		}
		out = append(out, strings.Join(events, " & "))
		body = rest[n+2:]
	}
	return slices.Compact(out)
}

// jsonShape prints keys in order and the kinds of values: s, n, b, null; lists
// of equal kinds once. The words that say what a chunk is are kept.
func jsonShape(t *testing.T, b []byte) string {
	t.Helper()
	if len(bytes.TrimSpace(b)) == 0 {
		return ""
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	var s strings.Builder
	if err := shapeValue(dec, &s, ""); err != nil && !errors.Is(err, io.EOF) {
		return "text" // not JSON
	}
	// A special token has no bytes.
	return strings.ReplaceAll(s.String(), "bytes:[]", "bytes:[n]")
}

func shapeValue(dec *json.Decoder, s *strings.Builder, key string) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch v := tok.(type) {
	case json.Delim:
		s.WriteString(v.String())
		var last string
		for i := 0; dec.More(); i++ {
			var item strings.Builder
			name := key
			if v == '{' {
				k, err := dec.Token()
				if err != nil {
					return err
				}
				name = k.(string)
				if key == "top_logprobs" && !slices.Contains([]string{"id", "token", "bytes", "logprob", "top_logprobs"}, name) {
					k = "s" // legacy shape: the keys are tokens
				}
				fmt.Fprintf(&item, "%v:", k)
			}
			if err := shapeValue(dec, &item, name); err != nil {
				return err
			}
			if v == '[' && item.String() == last || v == '{' && key == "top_logprobs" && item.String() == last {
				continue
			}
			if item.String() == strings.Replace(last, "bytes:[n]", "bytes:[]", 1) {
				continue
			}
			if last = item.String(); i > 0 {
				s.WriteString(",")
			}
			s.WriteString(last)
		}
		end, err := dec.Token()
		if err != nil {
			return err
		}
		s.WriteString(end.(json.Delim).String())
	case string:
		switch key {
		case "object", "role", "finish_reason", "type", "owned_by":
			s.WriteString(strconv.Quote(v))
		default:
			s.WriteString("s")
		}
	case float64:
		s.WriteString("n")
	case bool:
		s.WriteString("b")
	case nil:
		s.WriteString("null")
	}
	return nil
}

func TestWireShapesAsCaptured(t *testing.T) {
	for _, d := range []Dialect{VLLM, SGLang, LlamaCPP} {
		files, err := filepath.Glob("testdata/" + string(d) + "/*.txt")
		if err != nil || len(files) < 10 {
			t.Fatalf("%s: %d captures, error %v", d, len(files), err)
		}
		for _, file := range files {
			name := string(d) + "/" + strings.TrimSuffix(filepath.Base(file), ".txt")
			t.Run(name, func(t *testing.T) {
				c := readCapture(t, file)
				p := plain()
				p.Dialect, p.Model, p.MaxModelLen = d, "tiny", 8192
				inBubble(t, p, Options{}, func(b *bench) {
					if d == LlamaCPP {
						// The captured server had the prompt in its cache; its
						// usage tells the cached tokens either way.
						b.do("POST", "/v1/completions", `{"prompt":"please loop","max_tokens":1}`, nil)
					}
					got, want := shapeOf(t, b.raw(c)), shapeOf(t, c.raw)
					if d := cmp.Diff(got, want); d != "" {
						t.Errorf("(sim -, engine +):\n%s", d)
					}
				})
			})
		}
	}
}

// raw sends a captured request and returns the response's bytes.
func (b *bench) raw(c capture) []byte {
	conn, err := b.ln.Dial()
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: sim\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", c.method, c.path, len(c.body), c.body)
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := io.ReadAll(conn)
	if err != nil {
		b.t.Fatal(err)
	}
	return raw
}
