package detect

// recent remembers when things were last seen, for as many as its rows hold,
// by hash. Four places a row, so that two things of one row do not forget each
// other in turn: a text of few words must come out as one.
type recent [recentRows][4]sighting

// sighting is a tag of 16 bits over a time of 16 bits; 0 is none.
type sighting uint32

const recentRows = 256

// mix spreads a hash over rows and tags.
func mix(hash uint32) uint32 { return hash * 0x9E3779B1 }

// see notes that a hash is seen now, and reports whether it was within the
// last reach times. Times wrap: what is not seen for 65,536 of them may come out
// as known, once.
func (r *recent) see(hash uint32, now uint32, reach uint16) bool {
	hash = mix(hash)
	row := &r[hash>>24]
	tag := sighting(hash<<8|1<<16) &^ 0xFFFF
	here := tag | sighting(now&0xFFFF)
	// At most one place has the tag. Which, is not to be guessed.
	place := -1
	for i, s := range row {
		if s&^0xFFFF == tag {
			place = i
		}
	}
	if place >= 0 {
		since := uint16(now) - uint16(row[place])
		row[place] = here
		return since <= reach
	}
	oldest, age := 0, uint16(0)
	for i, s := range row {
		since := uint16(now) - uint16(s)
		if s == 0 {
			since = 0xFFFF
		}
		if since > age {
			oldest, age = i, since
		}
	}
	row[oldest] = here
	return false
}

// fewRecent is a recent that is made when there is more to remember than the few
// that come before a text has brought its first words.
type fewRecent struct {
	many *recent // nil while few is enough
	used bool    // many is in use
	n    int
	few  [32]fewSighting
}

type fewSighting struct{ hash, now uint32 }

// see is that of recent, to the letter: a row that would overflow is no row of
// the few.
func (f *fewRecent) see(hash uint32, now uint32, reach uint16) bool {
	if f.used {
		return f.many.see(hash, now, reach)
	}
	known, inRow := -1, 0
	for i := range f.n {
		switch was := mix(f.few[i].hash) ^ mix(hash); {
		case was>>8&^1 == 0:
			known = i
		case was>>24 == 0:
			inRow++
		}
	}
	if known < 0 && f.n < len(f.few) && inRow < len(recent{}[0]) {
		f.few[f.n] = fewSighting{hash, now}
		f.n++
		return false
	}
	if known >= 0 {
		since := uint16(now) - uint16(f.few[known].now)
		f.few[known].now = now
		return since <= reach
	}
	f.spill()
	return f.many.see(hash, now, reach)
}

// spill makes many of the few.
func (f *fewRecent) spill() {
	if f.many == nil {
		f.many = new(recent)
	}
	for _, s := range f.few[:f.n] {
		f.many.see(s.hash, s.now, 0)
	}
	f.used = true
}

// reset forgets everything and keeps the memory.
func (f *fewRecent) reset() {
	if f.used {
		*f.many = recent{}
	}
	*f = fewRecent{many: f.many}
}
