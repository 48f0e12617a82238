package configs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Max in a list of contexts stands for the largest that fits.
const Max = -1

// maxLevels bounds one list: 1..1000000+1 is a slip, not a plan.
const maxLevels = 1024

// ParseLevels reads a list of numbers from least on: 1..128 doubles (1,2,4,…,128),
// 1..8+1 steps, 1,3,128 stands as it is, and they mix. The end of a range is
// always in. Order is kept, duplicates drop.
func ParseLevels(s string) ([]int, error) { return parseList(s, 1, nil) }

// ParseContexts reads a list of context lengths: as ParseLevels, with k for 1024
// and m for 1024·1024, 0 for the tail alone, and max (Max) for the largest that
// fits.
func ParseContexts(s string) ([]int, error) {
	return parseList(s, 0, map[string]int{"max": Max})
}

func parseList(s string, least int, words map[string]int) ([]int, error) {
	var out []int
	for item := range strings.SplitSeq(s, ",") {
		item = strings.ToLower(strings.TrimSpace(item))
		if n, ok := words[item]; ok {
			out = append(out, n)
			continue
		}
		ns, err := parseItem(item, least, words != nil)
		if err != nil {
			return nil, err
		}
		out = append(out, ns...)
		if len(out) > maxLevels {
			return nil, fmt.Errorf("the list has more than %d entries", maxLevels)
		}
	}
	seen := map[int]bool{}
	return slices.DeleteFunc(out, func(n int) bool {
		again := seen[n]
		seen[n] = true
		return again
	}), nil
}

// parseItem reads one number or range.
func parseItem(item string, least int, scaled bool) ([]int, error) {
	from, rest, isRange := strings.Cut(item, "..")
	first, err := parseLevel(from, least, scaled)
	if err != nil || !isRange {
		return []int{first}, err
	}
	to, by, stepped := strings.Cut(rest, "+")
	last, err := parseLevel(to, least, scaled)
	if err != nil {
		return nil, err
	}
	if last < first {
		return nil, fmt.Errorf("the range %s runs backwards", item)
	}
	step := 0
	if stepped {
		if step, err = parseLevel(by, 1, scaled); err != nil {
			return nil, err
		}
		if (last-first)/step >= maxLevels {
			return nil, fmt.Errorf("the range %s has more than %d entries", item, maxLevels)
		}
	} else if first == 0 {
		return nil, fmt.Errorf("the range %s doubles, and 0 doubled stays 0: begin at 1, or give a step (0..8k+1k)", item)
	}
	var out []int
	for n := first; n < last; {
		out = append(out, n)
		if stepped {
			n += step
		} else {
			n *= 2
		}
	}
	return append(out, last), nil
}

// maxLevel keeps arithmetic on levels far from overflow.
const maxLevel = 1 << 40

func parseLevel(s string, least int, scaled bool) (int, error) {
	digits, scale := s, 1
	if scaled && s != "" {
		switch s[len(s)-1] {
		case 'k':
			digits, scale = s[:len(s)-1], 1<<10
		case 'm':
			digits, scale = s[:len(s)-1], 1<<20
		}
	}
	n, err := strconv.ParseUint(digits, 10, 40)
	switch {
	case s == "":
		return 0, fmt.Errorf("a number is missing between the commas or dots")
	case err != nil || n > maxLevel/uint64(scale):
		return 0, fmt.Errorf("%q is not a whole number%s", s, map[bool]string{true: " such as 512, 8k or max"}[scaled])
	case int(n)*scale < least:
		return 0, fmt.Errorf("%q is below %d", s, least)
	}
	return int(n) * scale, nil
}
