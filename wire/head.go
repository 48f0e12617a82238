package wire

import "bytes"

// maxHead bounds what is remembered of a stream; of vLLM it is 130 bytes.
const maxHead = 256

// head is how the chunks of a stream begin, up to the value of "choices": id,
// model and the like, the same in each chunk and a third of its text. A chunk
// with the same bytes says the same there.
type head struct {
	bytes     []byte
	id, model span
}

// span is a piece of a payload.
type span struct{ from, to int }

func (s span) of(p []byte) []byte {
	if s.from == s.to {
		return nil
	}
	return p[s.from:s.to]
}

// sameHead skips a head that is known, to the value of "choices".
func (r *reader) sameHead() bool {
	h := &r.of.head
	if len(h.bytes) == 0 || !bytes.HasPrefix(r.p, h.bytes) {
		return false
	}
	r.i, r.depth = len(h.bytes), 1
	r.ev.ID, r.ev.Model = h.id.of(r.p), h.model.of(r.p)
	return true
}

// keepHead remembers the head that was read, unless it has escapes: then its
// strings do not lie in the payload, and spanOf must not be asked.
func (r *reader) keepHead() {
	if r.i > maxHead || len(r.text) > 0 {
		return
	}
	h := &r.of.head
	h.bytes = append(h.bytes[:0], r.p[:r.i]...)
	h.id, h.model = r.spanOf(r.ev.ID), r.spanOf(r.ev.Model)
}

// spanOf returns where v lies in the payload. v is nil or what str returned of a
// string without escapes: see offset.
func (r *reader) spanOf(v []byte) span {
	if v == nil {
		return span{}
	}
	from := offset(r.p, v)
	return span{from, from + len(v)}
}
