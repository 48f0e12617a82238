package wire

// nesting is where a scan through bare JSON values stands.
type nesting struct {
	depth   int
	text    bool // inside a string
	escape  bool // behind a backslash in it
	garbage bool // between values, something that is none was reported
}

// nextValue consumes input until a top-level value closes.
func (d *Decoder) nextValue() *Event {
	start := d.pos
	for d.pos < len(d.in) {
		c := d.in[d.pos]
		d.pos++
		n := &d.json
		switch {
		case n.escape:
			n.escape = false
		case n.text:
			n.escape = c == '\\'
			n.text = c != '"'
		case n.depth == 0 && c != '{' && c != '[':
			start = d.pos
			if !isSpace(c) && !n.garbage {
				n.garbage = true
				return d.reading().malformed(1)
			}
		case c == '"':
			n.text = true
		case c == '{' || c == '[':
			n.depth++
			n.garbage = false
		case c == '}' || c == ']':
			if n.depth--; n.depth > 0 {
				continue
			}
			if len(d.event.data.bytes())+d.pos-start > d.max {
				return d.giveUp()
			}
			return d.value(d.in[start:d.pos])
		}
	}
	if d.json.depth > 0 {
		if len(d.event.data.bytes())+len(d.in)-start > d.max {
			return d.giveUp()
		}
		d.event.data.append(d.in[start:])
	}
	return nil
}

// giveUp stops reading at a value over the size limit. Where it ends does not
// matter: a bare body is one value in all dialects read here.
func (d *Decoder) giveUp() *Event {
	d.tooLarge()
	d.body = opaque
	d.setInput(nil)
	d.event.data.release()
	return d.reading().malformed(d.max + 1)
}

// value returns the event of a value whose last bytes are end.
func (d *Decoder) value(end []byte) *Event {
	if len(d.event.data.bytes()) > 0 {
		d.event.data.append(end)
		end = d.event.data.bytes()
	}
	d.spent = true
	return d.reading().read(end, false)
}
