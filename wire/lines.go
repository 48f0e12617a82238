package wire

import "bytes"

// nextLine consumes lines until one completes an event.
func (d *Decoder) nextLine() *Event {
	for d.pos < len(d.in) {
		if d.afterCR {
			// A CR ends a line at once; the LF of a CRLF may come with the
			// next read and must not end another.
			d.afterCR = false
			if d.in[d.pos] == '\n' {
				d.pos++
				continue
			}
		}
		end := d.lineEnd()
		if end == len(d.in) {
			d.hold(d.in[d.pos:])
			break
		}
		line := d.in[d.pos:end]
		d.afterCR = d.in[end] == '\r'
		d.pos = end + 1
		if d.lineSize > 0 {
			d.hold(line)
			d.heldLine()
			continue
		}
		if len(line) == 0 {
			if ev := d.dispatch(); ev != nil {
				return ev
			}
			continue
		}
		d.field(line, 0)
	}
	return nil
}

// lineEnd returns the index of the next line end at or after pos. Both kinds
// are remembered, so that a read full of CRs is scanned once and not once a
// line.
func (d *Decoder) lineEnd() int {
	if d.lf < d.pos {
		d.lf = indexFrom(d.in, d.pos, '\n')
	}
	if d.cr < d.pos {
		d.cr = indexFrom(d.in, d.pos, '\r')
	}
	return min(d.lf, d.cr)
}

func indexFrom(p []byte, i int, c byte) int {
	if n := bytes.IndexByte(p[i:], c); n >= 0 {
		return i + n
	}
	return len(p)
}

// fieldName is room for the name of a field beside a payload of the size limit.
const fieldName = len("data: ") + 2

// hold keeps the start of a line, up to the size limit.
func (d *Decoder) hold(p []byte) {
	if d.lineSize == 0 {
		d.keepView() // it may lie in the last line held
		d.line.release()
	}
	d.lineSize += len(p)
	if room := d.max + fieldName - len(d.line.bytes()); len(p) > room {
		p = p[:max(room, 0)]
	}
	d.line.append(p)
}

// heldLine takes the line that hold has put together.
func (d *Decoder) heldLine() {
	line := d.line.bytes()
	dropped := d.lineSize - len(line)
	d.lineSize = 0
	d.field(line, dropped)
}

// field takes one line that is not blank and stays valid until the input is
// consumed or another line is held. dropped is the number of bytes that hold
// left out at its end.
func (d *Decoder) field(line []byte, dropped int) {
	name, value := line, []byte(nil)
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, value = line[:i], line[i+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(name) {
	case "data":
		d.payload(value, dropped)
	case "":
		d.comments++
	case "event":
		d.event.failed = string(value) == "error"
	case "error":
		// Not a field of the standard: llama.cpp before September 2025
		// sent its errors so (llama.cpp#16109).
		d.event.failed = true
		d.payload(value, dropped)
	}
}

// payload adds a data line to the event.
func (d *Decoder) payload(value []byte, dropped int) {
	e := &d.event
	e.size += len(value) + dropped
	if e.has {
		d.keepView()
		e.size++ // the LF that joins two lines
		if !e.over {
			e.data.append(lineFeed)
		}
	}
	first := !e.has
	e.has = true
	switch {
	case e.over:
	case dropped > 0 || e.size > d.max:
		e.over = true
		e.data.release()
	case first:
		e.view = value
	default:
		e.data.append(value)
	}
}

var lineFeed = []byte{'\n'}

// keepView copies the payload out of the input before the input goes away.
func (d *Decoder) keepView() {
	if d.event.view != nil {
		d.event.data.append(d.event.view)
		d.event.view = nil
	}
}

// dispatch ends the event, as a blank line does, and returns it. It returns
// nil for events without data and for keep-alives.
func (d *Decoder) dispatch() *Event {
	e := &d.event
	if !e.has {
		e.failed = false // a bare event: line says nothing
		return nil
	}
	data := e.view
	if data == nil {
		data = e.data.bytes()
	}
	size, failed, over := e.size, e.failed, e.over
	d.event = framed{data: e.data}
	d.spent = true
	if over {
		d.tooLarge()
		return d.reading().malformed(size)
	}
	ev := d.reading().read(data, failed)
	if ev == nil {
		d.settle()
		d.comments++
	}
	return ev
}
