package stream

import (
	"encoding/binary"
	"math"
)

// Pack appends the record, without its EventLog, to dst in some 200 bytes, and returns
// it: for the many that are kept, and of which few are read. Unpack is its inverse.
func (r *Record) Pack(dst []byte) []byte {
	p := packer{b: dst}
	p.record(r)
	return p.b
}

// Unpack returns the record that Pack has written to the beginning of b, and what is
// behind it.
func Unpack(b []byte) (r *Record, rest []byte) {
	p := packer{b: b, reads: true}
	r = &Record{Type: "record", V: Version}
	p.record(r)
	return r, p.b
}

// packer goes through the fields of a record, and writes or reads each: one list for
// both ways, so that they cannot differ.
type packer struct {
	b     []byte // what was written, or is still to be read
	reads bool
}

func (p *packer) record(r *Record) {
	packText(p, &r.ID)
	packInt(p, &r.Context)
	packInt(p, &r.Concurrency)
	packInt(p, &r.Slot)
	packInt(p, &r.Seq)
	packText(p, &r.Phase)
	packText(p, &r.Model)
	packText(p, &r.Dialect)
	packInt(p, &r.Status)
	packNull(p, &r.SentNS)
	packNull(p, &r.SentMonoNS)
	packNull(p, &r.SentRealNS)
	packNull(p, &r.RequestReceivedNS)
	packNull(p, &r.HeadersNS)
	packNull(p, &r.TTFENS)
	packNull(p, &r.TTFTNS)
	packNull(p, &r.TTFVNS)
	packNull(p, &r.LastTokenNS)
	packNull(p, &r.EndNS)
	if p.flag(&r.TBTNS.OK) {
		p.float(&r.TBTNS.V)
	}
	packInt(p, &r.Tokens)
	packNull(p, &r.FirstTokens)
	packText(p, &r.TokensFrom)
	packNull(p, &r.PromptTokens)
	packNull(p, &r.CachedTokens)
	packNull(p, &r.ReasoningTokens)
	packInt(p, &r.Events)
	packInt(p, &r.GeneratedEvents)
	packInt(p, &r.CoalescedEvents)
	p.gaps(&r.Gaps)
	p.window(&r.Window)
	packText(p, &r.Finish)
	packText(p, &r.End)
	packText(p, &r.Reason)
	packText(p, &r.Error)
	packText(p, &r.Stamps)
	packInt(p, &r.Retries)
	packInt(p, &r.Malformed)
	r.Flags = packLen(p, r.Flags)
	for i := range r.Flags {
		packText(p, &r.Flags[i])
	}
	r.Loops = packLen(p, r.Loops)
	for i := range r.Loops {
		p.loop(&r.Loops[i])
	}
	packText(p, &r.Upstream)
	packText(p, &r.Route)
	packNull(p, &r.IntendedNS)
}

func (p *packer) gaps(g *Gaps) {
	packInt(p, &g.N)
	packNull(p, &g.MinNS)
	packNull(p, &g.P50NS)
	packNull(p, &g.P90NS)
	packNull(p, &g.P99NS)
	packNull(p, &g.MaxNS)
}

func (p *packer) window(at **Window) {
	is := *at != nil
	if !p.flag(&is) {
		return
	}
	if p.reads {
		*at = new(Window)
	}
	w := *at
	p.float(&w.Tokens)
	p.float(&w.FirstTokens)
	packNull(p, &w.FirstNS)
	packNull(p, &w.LastNS)
	packInt(p, &w.Events)
	p.float(&w.CleanTokens)
	packInt(p, &w.CleanNS)
	p.flag(&w.Trimmed)
}

func (p *packer) loop(l *Loop) {
	packText(p, &l.Verdict)
	packText(p, &l.Channel)
	packInt(p, &l.Choice)
	packNull(p, &l.Onset)
	packNull(p, &l.Period)
	packNull(p, &l.Cycles)
	packNull(p, &l.ConfirmedAt)
	packNull(p, &l.OnsetToken)
	packNull(p, &l.OnsetNS)
	packText(p, &l.SHA256)
	packText(p, &l.Excerpt)
}

// flag returns what it has written or read.
func (p *packer) flag(v *bool) bool {
	switch {
	case p.reads:
		*v = p.b[0] == 1
		p.b = p.b[1:]
	case *v:
		p.b = append(p.b, 1)
	default:
		p.b = append(p.b, 0)
	}
	return *v
}

func (p *packer) float(v *float64) {
	if p.reads {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(p.b))
		p.b = p.b[8:]
		return
	}
	p.b = binary.LittleEndian.AppendUint64(p.b, math.Float64bits(*v))
}

func packInt[T ~int | ~int64](p *packer, v *T) {
	if p.reads {
		got, n := binary.Varint(p.b)
		*v, p.b = T(got), p.b[n:]
		return
	}
	p.b = binary.AppendVarint(p.b, int64(*v))
}

func packNull[T ~int | ~int64](p *packer, v *Null[T]) {
	if p.flag(&v.OK) {
		packInt(p, &v.V)
	}
}

func packText[T ~string](p *packer, v *T) {
	n := len(*v)
	packInt(p, &n)
	if p.reads {
		*v, p.b = T(p.b[:n]), p.b[n:]
		return
	}
	p.b = append(p.b, *v...)
}

// packLen returns list, or one that has room for what is to be read: never nil, as
// Finish's lists.
func packLen[T any](p *packer, list []T) []T {
	n := len(list)
	packInt(p, &n)
	if p.reads {
		list = make([]T, n)
	}
	return list
}
