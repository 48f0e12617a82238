package configs

import "strings"

// hint is `, did you mean "x"?` with the key nearest to a wrong one, "" when
// none is near.
func (ks Keys) hint(wrong string) string {
	names := make([]string, len(ks))
	for i := range ks {
		names[i] = ks[i].Name
	}
	return Hint(strings.ReplaceAll(wrong, "_", "-"), names)
}

// Hint is `, did you mean "x"?` with the name nearest to a wrong one, "" when none
// is near.
func Hint(wrong string, names []string) string {
	wrong = strings.ToLower(wrong)
	best, least := "", max(2, len(wrong)/3)+1
	for _, name := range names {
		d := distance(wrong, name)
		if strings.HasPrefix(name, wrong) {
			d = 0 // the beginning was right
		}
		if d < least {
			best, least = name, d
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
