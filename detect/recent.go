package detect

// recent remembers when things were last seen, for as many as its rows hold,
// by hash. Four places a row, so that two things of one row do not forget each
// other in turn: a text of few words must come out as one.
type recent [recentRows][4]sighting

// sighting is a tag of 16 bits over a time of 16 bits; 0 is none.
type sighting uint32

const recentRows = 256

// see notes that a hash is seen now, and reports whether it was within the
// last reach times. Times wrap: what is not seen for 65,536 of them may come out
// as known, once.
func (r *recent) see(hash uint32, now uint32, reach uint16) bool {
	hash *= 0x9E3779B1
	row := &r[hash>>24]
	tag := sighting(hash<<8|1<<16) &^ 0xFFFF
	here := tag | sighting(now&0xFFFF)
	oldest, age := 0, uint16(0)
	for i, s := range row {
		since := uint16(now) - uint16(s)
		if s&^0xFFFF == tag {
			row[i] = here
			return since <= reach
		}
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
