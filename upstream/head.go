package upstream

import (
	"bytes"
	"errors"
	"fmt"
)

// maxHead is the limit of a response head, and of a trailer section.
const maxHead = 64 << 10

// head is a parsed response head. It aliases the bytes it was parsed from.
type head struct {
	minor  int // of the version: HTTP/1.minor
	status int
	reason []byte
	fields []Field
}

// headEnd returns the length of the head at the start of b, its blank line
// included, or -1 if it is not complete. The search starts near from, the
// length that was looked at before.
func headEnd(b []byte, from int) int {
	for i := max(0, from-3); ; {
		j := bytes.IndexByte(b[i:], '\n')
		if j < 0 {
			return -1
		}
		i += j + 1
		if rest := b[i:]; len(rest) > 0 && rest[0] == '\n' {
			return i + 1
		} else if len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			return i + 2
		}
	}
}

// checkStart refuses what cannot become a status line, so that a peer which
// speaks something else is not waited for.
func checkStart(b []byte) error {
	const start = "HTTP/1."
	if n := min(len(b), len(start)); string(b[:n]) != start[:n] {
		return fmt.Errorf("response does not begin with %q", start)
	}
	return nil
}

// parse reads the head b, whose end headEnd has found. RFC 9112, section 2.2,
// allows a bare LF to end a line of it; a folded line is joined by spaces, and
// white space before a colon is dropped, as section 5 asks of a proxy.
func (h *head) parse(b []byte) error {
	*h = head{fields: h.fields[:0]}
	line, rest, err := cutLine(b)
	if err != nil {
		return err
	}
	if err := h.parseStatus(line); err != nil {
		return err
	}
	h.fields, err = appendFields(h.fields, rest)
	return err
}

// Errors quote nothing that the server sent: they are logged.
var errStatusLine = errors.New("status line is malformed")

func (h *head) parseStatus(line []byte) error {
	const start = "HTTP/1."
	if len(line) < len(start)+5 || checkStart(line) != nil {
		return errStatusLine
	}
	minor := line[len(start)]
	code, tail := line[len(start)+2:], line[len(start)+5:]
	if minor < '0' || minor > '9' || line[len(start)+1] != ' ' || len(tail) > 0 && tail[0] != ' ' {
		return errStatusLine
	}
	for _, c := range code[:3] {
		if c < '0' || c > '9' {
			return errStatusLine
		}
		h.status = h.status*10 + int(c-'0')
	}
	if h.status < 100 {
		return errStatusLine
	}
	if len(tail) > 0 {
		h.reason = tail[1:]
	}
	h.minor = int(minor - '0')
	return nil
}

// cutLine takes the first line off b, without its line end.
func cutLine(b []byte) (line, rest []byte, err error) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return nil, nil, errors.New("header line without an end")
	}
	line, rest = b[:i], b[i+1:]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if bytes.IndexByte(line, '\r') >= 0 || bytes.IndexByte(line, 0) >= 0 {
		return nil, nil, errors.New("header line with a bare CR or NUL")
	}
	return line, rest, nil
}

// appendFields parses the lines of b up to a blank one. Folded lines are
// blanked in b itself.
func appendFields(dst []Field, b []byte) ([]Field, error) {
	for {
		line, rest, err := cutLine(b)
		if err != nil {
			return dst, err
		}
		if len(line) == 0 {
			return dst, nil
		}
		for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') {
			more, after, err := cutLine(rest)
			if err != nil {
				return dst, err
			}
			begin := len(b) - len(rest)
			for i := len(line); i < begin; i++ {
				b[i] = ' ' // the line end between the two
			}
			line, rest = b[:begin+len(more)], after
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		name = bytes.TrimRight(name, " \t")
		if !ok || !IsToken(name) {
			return dst, errors.New("header line without a name that is a token")
		}
		dst = append(dst, Field{name, Trim(value)})
		b = rest
	}
}

// IsToken reports whether b is a token of RFC 9110, section 5.6.2.
func IsToken(b []byte) bool {
	for _, c := range b {
		if !tokens[c] {
			return false
		}
	}
	return len(b) > 0
}

var tokens = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

// Trim returns a field's value without the spaces and tabs around it.
func Trim(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// has reports whether token is in a comma list of the fields called name.
func (h *head) has(name, token string) bool {
	for _, f := range h.fields {
		if !f.Is(name) {
			continue
		}
		for item := range bytes.SplitSeq(f.Value, []byte{','}) {
			if item = Trim(item); len(item) == len(token) && fold(item, token) {
				return true
			}
		}
	}
	return false
}
