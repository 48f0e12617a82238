package configs

import "strings"

// hint is `, did you mean "x"?` with the key nearest to a wrong one, "" when
// none is near.
func (ks Keys) hint(wrong string) string {
	wrong = strings.ToLower(strings.ReplaceAll(wrong, "_", "-"))
	best, least := "", max(2, len(wrong)/3)+1
	for i := range ks {
		if d := distance(wrong, ks[i].Name); d < least {
			best, least = ks[i].Name, d
		}
	}
	if best == "" {
		return ""
	}
	return `, did you mean "` + best + `"?`
}

// distance is the number of single-character edits between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := corner
			if a[i] != b[j] {
				substitute++
			}
			corner = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
