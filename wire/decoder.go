package wire

import "bytes"

// DefaultMaxEvent is the size of an event, in bytes, over which a Decoder
// skips it: above the largest that engines send (prompt_token_ids of a
// 251K prompt are 2 MB), below what hurts.
const DefaultMaxEvent = 8 << 20

// body is what the bytes turned out to be.
type body uint8

const (
	unsure body = iota // nothing but white space so far
	lines              // an event stream
	values             // bare JSON values
	opaque             // not to be understood; see blind
)

// Decoder turns the body of one response into events. Use: Push the bytes of
// a read, call Next until it returns nil, and so on; at the body's end, Close.
// The zero Decoder is not usable, NewDecoder makes one. Not safe for
// concurrent use.
type Decoder struct {
	// What a read of one event touches, and what it remembers, comes first: where
	// thousands of streams take turns, each cache line of it costs a miss.
	in       []byte // pushed and not yet consumed from pos on; the caller's
	pos      int
	body     body
	afterCR  bool
	spent    bool // the event handed out last may lie in line or event.data
	line     held // a line whose end is not in yet
	lineSize int  // of line, with the bytes dropped because of max
	reader   *reader
	memory   memory
	event    framed

	max      int
	lf, cr   int // next LF and CR at or after pos, len(in) when there is none
	json     nesting
	blind    string
	comments int
	bom      int // bytes of a byte order mark seen at the start
}

// framed is the event that is being collected.
type framed struct {
	has    bool   // a data line was seen
	failed bool   // event: error, or an error: line
	over   bool   // too large, data was dropped
	size   int    // payload bytes, those dropped included
	data   held   // payload
	view   []byte // payload while it is one line that lies in the input or in Decoder.line
}

// NewDecoder returns a Decoder for a body in dialect d. maxEvent is the size in
// bytes over which an event is skipped, 0 means DefaultMaxEvent.
func NewDecoder(d Dialect, maxEvent int) *Decoder {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	dec := &Decoder{max: maxEvent}
	dec.Reset(d)
	return dec
}

// Reset makes the Decoder ready for another body.
func (d *Decoder) Reset(dialect Dialect) {
	d.line.release()
	d.event.data.release()
	if d.reader != nil {
		d.reader.giveBack()
	}
	*d = Decoder{max: d.max, memory: memory{dialect: dialect}}
	d.setInput(nil)
	if dialect == Unknown {
		d.body, d.blind = opaque, "dialect"
	}
}

// Push gives the Decoder the bytes of one read. It keeps p until Next has
// returned nil; p must not change before that.
func (d *Decoder) Push(p []byte) {
	if d.pos < len(d.in) {
		// The caller did not drain the last read: join the two.
		p = append(bytes.Clone(d.in[d.pos:]), p...)
	}
	d.setInput(p)
}

func (d *Decoder) setInput(p []byte) {
	d.in, d.pos, d.lf, d.cr = p, 0, -1, -1
}

// One returns the event of a read that is one event in one line, which is how
// servers write nearly all. Behind it Next returns nil. For any other read, and
// where part of an event came before, it returns nil itself: the read is for Push.
func (d *Decoder) One(p []byte) *Event {
	if d.body != lines || d.afterCR || d.spent || d.lineSize > 0 || d.event.has || d.event.failed || len(d.in) > 0 {
		return nil
	}
	payload, ok := bytes.CutPrefix(p, dataField)
	end := len(payload) - len(blankLine)
	if !ok || end < 0 || end > d.max || bytes.IndexByte(payload, '\n') != end || payload[end+1] != '\n' || bytes.IndexByte(payload, '\r') >= 0 {
		return nil
	}
	return d.reading().read(payload[:end], false) // nil for a keep-alive wrapped as data
}

var (
	dataField = []byte("data: ")
	blankLine = []byte("\n\n")
)

// Next returns the next event that the pushed bytes complete, nil when there
// is none. The event is valid until the next call of Push, Next, Close or
// Reset.
func (d *Decoder) Next() *Event {
	d.settle()
	if d.pos < len(d.in) {
		if ev := d.next(); ev != nil {
			return ev
		}
	}
	d.rest()
	return nil
}

func (d *Decoder) next() *Event {
	if d.body == unsure {
		d.sniff()
	}
	switch d.body {
	case lines:
		return d.nextLine()
	case values:
		return d.nextValue()
	}
	return nil
}

// reading returns the reader of this stream.
func (d *Decoder) reading() *reader {
	if d.reader == nil {
		d.reader = borrow(&d.memory)
	}
	return d.reader
}

// settle gives the memory of the event handed out last back.
func (d *Decoder) settle() {
	if !d.spent {
		return
	}
	d.spent = false
	d.event.data.release()
	if d.lineSize == 0 {
		d.line.release()
	}
}

// rest leaves nothing in hand but what the next read may continue.
func (d *Decoder) rest() {
	d.keepView()
	if d.in != nil {
		d.setInput(nil)
	}
	if d.lineSize == 0 {
		d.line.release()
	}
	if d.reader != nil {
		d.reader.giveBack()
		d.reader = nil
	}
}

// Close returns the event that the body's end completes, if any: one that
// lacks its blank line but is whole. It must be called after Next has returned
// nil. The standard drops such an event; for counting, its token was made.
func (d *Decoder) Close() *Event {
	d.settle()
	if d.body != lines {
		return nil
	}
	if d.lineSize > 0 {
		d.heldLine()
	}
	ev := d.dispatch()
	if ev == nil || ev.Kind == Malformed {
		// Half an event is what a cut leaves, not something the server said.
		return nil
	}
	ev.Unterminated = true
	return ev
}

// Comments returns the number of comment lines and of keep-alives wrapped as
// data so far.
func (d *Decoder) Comments() int { return d.comments }

// Blind returns why (a part of) the body could not be read: "dialect", "html",
// "encoded" (compressed bytes), "event_size", or "" when all of it was.
func (d *Decoder) Blind() string { return d.blind }

var byteOrderMark = []byte("\xef\xbb\xbf")

// sniff decides by the first byte what the body is.
func (d *Decoder) sniff() {
	for d.pos < len(d.in) {
		c := d.in[d.pos]
		switch {
		case d.bom < len(byteOrderMark) && c == byteOrderMark[d.bom]:
			d.bom++
			d.pos++
			continue
		case isSpace(c):
			d.pos++
			continue
		case c == '{' || c == '[':
			d.body = values
		case c == '<':
			d.body, d.blind = opaque, "html"
		case c == 0x1f: // gzip
			d.body, d.blind = opaque, "encoded"
		default:
			d.body = lines
		}
		return
	}
}

// tooLarge notes that a part of the body was skipped.
func (d *Decoder) tooLarge() {
	if d.blind == "" {
		d.blind = "event_size"
	}
}
