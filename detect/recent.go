package detect

// recent remembers when things were last seen, for as many as its rows hold,
// by hash. Four places a row, so that two things of one row do not forget each
// other in turn: a text of few words must come out as one.
type recent [recentRows][4]struct {
	tag uint16
	at  uint16
}

const recentRows = 256

// see notes that a hash is seen now, and reports whether it was within the
// last reach times. now counts from 1 and wraps.
func (r *recent) see(hash uint32, now uint32, reach uint16) bool {
	hash *= 0x9E3779B1
	row := &r[hash>>24]
	tag := uint16(hash>>8) | 1 // an empty place has no tag
	oldest := 0
	for i := range row {
		if row[i].tag == tag {
			known := uint16(now)-row[i].at <= reach
			row[i].at = uint16(now)
			return known
		}
		if uint16(now)-row[i].at > uint16(now)-row[oldest].at || row[i].tag == 0 {
			oldest = i
		}
	}
	row[oldest].tag = tag
	row[oldest].at = uint16(now)
	return false
}
