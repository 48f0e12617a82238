package matrix

// rank orders the statuses a measured cell can have, worst first
// (docs/measuring.md, "Status"). Interrupted and skipped are not verdicts on a
// measurement and stand above all of them.
var rank = map[Status]int{
	Skipped: 0, Interrupted: 1, Failed: 2, Looped: 3, OverCapacity: 4, Short: 5, Limited: 6, Valid: 7, "": 8,
}

// Raise sets the status if it is worse than the one the cell has; otherwise the
// finding is kept as a warning, so that nothing noticed is lost.
func (c *Cell) Raise(s Status, reason, message string) {
	if rank[s] < rank[c.Status] {
		if c.Status != Valid && c.Status != "" {
			c.Warn(c.Reason, c.Message)
		}
		c.Status, c.Reason, c.Message = s, reason, message
		return
	}
	c.Warn(reason, message)
}

// Warn adds a warning once a code and sentence.
func (c *Cell) Warn(code, message string) {
	if code == "" {
		return
	}
	w := Warning{Code: code, Message: message}
	for _, have := range c.Warnings {
		if have == w {
			return
		}
	}
	c.Warnings = append(c.Warnings, w)
}

// HasNumbers reports whether the cell measured something that may be printed.
func (c *Cell) HasNumbers() bool { return c.TotalTokS.OK }
