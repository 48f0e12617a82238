package upstream

import (
	"bytes"
	"errors"
	"strconv"
)

// kind is how a body ends (RFC 9112, section 6.3).
type kind uint8

const (
	none     kind = iota // there is no body
	byLength             // after Content-Length bytes
	byChunks             // with the last chunk
	byClose              // with the connection
)

// framing is how a body ends, and what may become of the connection then.
type framing struct {
	kind   kind
	length int64 // of byLength; of none it is what Content-Length says, else -1
	reuse  bool
}

// framing settles how the body of h, the answer to method, ends.
func (h *head) framing(method string) (framing, error) {
	f := framing{kind: byClose, length: -1}
	f.reuse = h.minor >= 1 && !h.has("Connection", "close") ||
		h.minor == 0 && h.has("Connection", "keep-alive")
	chunked, err := h.chunked()
	if err != nil {
		return f, err
	}
	length, err := h.length()
	if err != nil {
		return f, err
	}
	switch {
	case method == "HEAD" || h.status < 200 || h.status == 204 || h.status == 304:
		f.kind, f.length = none, length
	case chunked:
		f.kind = byChunks
		// Chunks in HTTP/1.0, or beside a length: one of the two is a mistake,
		// so nothing that follows on this connection can be trusted.
		f.reuse = f.reuse && h.minor >= 1 && length < 0
	case length >= 0:
		f.kind, f.length = byLength, length
	default:
		f.reuse = false
	}
	return f, nil
}

// chunked reports whether the body is in chunks; other codings are errors,
// since a body in them could not be handed out.
func (h *head) chunked() (bool, error) {
	seen := false
	for _, f := range h.fields {
		if !f.Is("Transfer-Encoding") {
			continue
		}
		v := f.Value
		switch {
		case len(v) == len("identity") && fold(v, "identity"):
		case len(v) == len("chunked") && fold(v, "chunked") && !seen:
			seen = true
		default:
			return false, errCoding
		}
	}
	return seen, nil
}

var (
	errLength  = errors.New("Content-Length is not a length")
	errLengths = errors.New("Content-Length fields differ")
	errCoding  = errors.New("transfer coding other than chunked")
)

// length returns Content-Length, -1 if there is none.
func (h *head) length() (int64, error) {
	length := int64(-1)
	for _, f := range h.fields {
		if !f.Is("Content-Length") {
			continue
		}
		for item := range bytes.SplitSeq(f.Value, []byte{','}) {
			item = Trim(item)
			// ParseUint takes a sign for an error, unlike ParseInt.
			n, err := strconv.ParseUint(string(item), 10, 63)
			if err != nil {
				return -1, errLength
			}
			if length >= 0 && length != int64(n) {
				return -1, errLengths
			}
			length = int64(n)
		}
	}
	return length, nil
}
