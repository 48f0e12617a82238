package engine

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// Series is one line of a Prometheus text exposition.
type Series struct {
	Name   string
	Labels []Label // in the order they stand
	Value  float64
}

// Label is one name="value" of a Series, unescaped.
type Label struct{ Name, Value string }

// Get returns the value of a label, "" when it is absent.
func (s *Series) Get(label string) string {
	for _, l := range s.Labels {
		if l.Name == label {
			return l.Value
		}
	}
	return ""
}

// ParseExposition returns the series whose exact name keep accepts. Comments,
// timestamps and exemplars are passed over. A line that cannot be read is left
// out and counted: one bad line of a strange exporter must not hide the rest.
//
// Exact names matter: "vllm:prompt_tokens_total" as a prefix would also take
// "vllm:prompt_tokens_total_created" and the like.
func ParseExposition(text []byte, keep func(name []byte) bool) (out []Series, bad int) {
	for len(text) > 0 {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		line = bytes.Trim(line, " \t\r")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		n := 0
		for n < len(line) && nameByte(line[n], n == 0) {
			n++
		}
		if n == 0 {
			bad++
			continue
		}
		if !keep(line[:n]) {
			continue
		}
		s := Series{Name: string(line[:n])}
		rest, ok := line[n:], true
		if len(rest) > 0 && rest[0] == '{' {
			s.Labels, rest, ok = labels(rest[1:])
		}
		fields := bytes.Fields(rest)
		if !ok || len(fields) == 0 {
			bad++
			continue
		}
		v, err := strconv.ParseFloat(string(fields[0]), 64)
		if err != nil && !math.IsInf(v, 0) {
			bad++
			continue
		}
		s.Value = v
		out = append(out, s)
	}
	return out, bad
}

// labels reads name="value" pairs up to the closing brace and returns what
// follows it.
func labels(b []byte) (out []Label, rest []byte, ok bool) {
	for {
		b = bytes.TrimLeft(b, " \t,")
		if len(b) > 0 && b[0] == '}' {
			return out, b[1:], true
		}
		n := 0
		for n < len(b) && nameByte(b[n], n == 0) {
			n++
		}
		l := Label{Name: string(b[:n])}
		b = bytes.TrimLeft(b[n:], " \t")
		if n == 0 || len(b) == 0 || b[0] != '=' {
			return nil, nil, false
		}
		b = bytes.TrimLeft(b[1:], " \t")
		if len(b) == 0 || b[0] != '"' {
			return nil, nil, false
		}
		l.Value, b, ok = quoted(b[1:])
		if !ok {
			return nil, nil, false
		}
		out = append(out, l)
	}
}

// quoted reads up to the closing quote. The format knows three escapes; any
// other backslash stands for itself.
func quoted(b []byte) (value string, rest []byte, ok bool) {
	var sb strings.Builder
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return sb.String(), b[i+1:], true
		case c == '\\' && i+1 < len(b):
			i++
			switch b[i] {
			case 'n':
				sb.WriteByte('\n')
			case '"', '\\':
				sb.WriteByte(b[i])
			default:
				sb.WriteByte('\\')
				sb.WriteByte(b[i])
			}
		default:
			sb.WriteByte(c)
		}
	}
	return "", nil, false
}

func nameByte(c byte, first bool) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':' || !first && c >= '0' && c <= '9'
}
