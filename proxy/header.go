package proxy

import (
	"bytes"

	"github.com/streamgauge/streamgauge/upstream"
)

// hop lists the header fields that concern one connection (RFC 9110 section
// 7.6.1); they are not passed on. It is the list of net/http's ReverseProxy.
var hop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// isHop reports whether a field is hop-by-hop: by its name, or since the
// message's Connection field names it.
func isHop(f upstream.Field, connection [][]byte) bool {
	for _, h := range hop {
		if f.Is(h) {
			return true
		}
	}
	for _, c := range connection {
		if bytes.EqualFold(f.Name, c) {
			return true
		}
	}
	return false
}

// connectionOf returns the names in the Connection fields.
func connectionOf(fields []upstream.Field) (names [][]byte) {
	for _, f := range fields {
		if !f.Is("Connection") {
			continue
		}
		for name := range bytes.SplitSeq(f.Value, []byte{','}) {
			if name = bytes.TrimSpace(name); len(name) > 0 {
				names = append(names, name)
			}
		}
	}
	return names
}

// hasToken reports whether a comma-separated field value holds a token.
func hasToken(value []byte, token string) bool {
	for t := range bytes.SplitSeq(value, []byte{','}) {
		if (upstream.Field{Name: bytes.TrimSpace(t)}).Is(token) {
			return true
		}
	}
	return false
}

// requestHead is what goes upstream of a request's head.
type requestHead struct {
	uri    []byte // the path and query as they came
	fields []upstream.Field
	id     string // X-Request-Id, "" when it has none that a record may hold
	sized  bool   // it has a Content-Length; fasthttp adds one where it thinks it is due
	bad    bool   // a field's name is no token; fasthttp lets a space in it pass
}

// maxID bounds the request ids that records take.
const maxID = 128

// readHead reads the head as it came on the wire: the fields in their spelling,
// order and number, without the hop-by-hop ones. The result points into uri and
// block, the header's lines.
func readHead(uri, block []byte) requestHead {
	all := rawFields(block)
	connection := connectionOf(all)
	head := requestHead{uri: uri, fields: make([]upstream.Field, 0, len(all)+2)}
	authority, path := splitAbsolute(head.uri)
	if authority != nil {
		// RFC 9112 section 3.2.2: the target's host stands above the field's.
		head.uri = path
	}
	var upgrade []byte
	for _, f := range all {
		head.bad = head.bad || bytes.IndexByte(f.Name, ' ') >= 0
		head.sized = head.sized || f.Is("Content-Length")
		switch {
		case f.Is("Transfer-Encoding"):
			// Replaced in its place by the framing that is sent.
			head.fields = append(head.fields, f)
		case f.Is("Te"):
			if hasToken(f.Value, "trailers") {
				head.fields = append(head.fields, upstream.Field{Name: f.Name, Value: []byte("trailers")})
			}
		case f.Is("Expect"):
			// The server has answered it; the upstream's 100 would be a second.
		case f.Is("Host") && authority != nil:
			head.fields = append(head.fields, upstream.Field{Name: f.Name, Value: authority})
		case f.Is("Upgrade"):
			upgrade = f.Value
		case isHop(f, connection):
		default:
			head.keep(f)
		}
	}
	for _, c := range connection {
		if upgrade != nil && bytes.EqualFold(c, []byte("upgrade")) {
			head.fields = append(head.fields,
				upstream.Field{Name: []byte("Connection"), Value: []byte("Upgrade")},
				upstream.Field{Name: []byte("Upgrade"), Value: upgrade})
			break
		}
	}
	return head
}

// keep passes a field on.
func (h *requestHead) keep(f upstream.Field) {
	h.fields = append(h.fields, f)
	if f.Is("X-Request-Id") && h.id == "" && printable(f.Value) {
		h.id = string(f.Value)
	}
}

// target is the request target for an upstream with a path of its own.
func (h *requestHead) target(prefix string) []byte {
	if prefix == "" || len(h.uri) == 0 || h.uri[0] != '/' {
		return h.uri
	}
	return append([]byte(prefix), h.uri...)
}

// splitAbsolute takes http://host/path apart; authority is nil for other forms.
func splitAbsolute(uri []byte) (authority, path []byte) {
	for _, scheme := range []string{"http://", "https://"} {
		if len(uri) < len(scheme) || !(upstream.Field{Name: uri[:len(scheme)]}).Is(scheme) {
			continue
		}
		rest := uri[len(scheme):]
		i := bytes.IndexAny(rest, "/?")
		switch {
		case i < 0:
			return rest, []byte("/")
		case rest[i] == '?':
			return rest[:i], append([]byte("/"), rest[i:]...)
		}
		return rest[:i], rest[i:]
	}
	return nil, uri
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return len(b) > 0 && len(b) <= maxID
}

// rawFields reads a header block as it came on the wire. Padding around values
// is not part of them; a folded line is joined with one space (RFC 9112 section
// 5.2).
func rawFields(block []byte) []upstream.Field {
	fields := make([]upstream.Field, 0, 16)
	for len(block) > 0 {
		line := cutLine(&block)
		i := bytes.IndexByte(line, ':')
		if i <= 0 {
			continue // the blank line at the end; the server has checked the others
		}
		value := upstream.Trim(line[i+1:])
		for len(block) > 0 && (block[0] == ' ' || block[0] == '\t') {
			more := upstream.Trim(cutLine(&block))
			value = append(append(bytes.Clone(value), ' '), more...)
		}
		fields = append(fields, upstream.Field{Name: line[:i], Value: value})
	}
	return fields
}

// cutLine takes the first line off, without its line break.
func cutLine(block *[]byte) []byte {
	line, rest, _ := bytes.Cut(*block, []byte{'\n'})
	*block = rest
	return bytes.TrimSuffix(line, []byte{'\r'})
}
