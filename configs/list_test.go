package configs

import (
	"slices"
	"strings"
	"testing"
)

func TestParseLists(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		parse    func(string) ([]int, error)
		want     []int
		err      string // part of the message; "" for none
	}{
		{"doubling", "1..128", ParseLevels, []int{1, 2, 4, 8, 16, 32, 64, 128}, ""},
		{"doubling ends at its end, power or not", "1..100", ParseLevels, []int{1, 2, 4, 8, 16, 32, 64, 100}, ""},
		{"doubling from another start", "3..24", ParseLevels, []int{3, 6, 12, 24}, ""},
		{"steps", "1..8+1", ParseLevels, []int{1, 2, 3, 4, 5, 6, 7, 8}, ""},
		{"steps end at their end", "1..8+3", ParseLevels, []int{1, 4, 7, 8}, ""},
		{"a step larger than the range", "1..3+9", ParseLevels, []int{1, 3}, ""},
		{"one value as a range", "5..5", ParseLevels, []int{5}, ""},
		{"as it stands", "1,3,128", ParseLevels, []int{1, 3, 128}, ""},
		{"R32: order is kept", "1,128,2", ParseLevels, []int{1, 128, 2}, ""},
		{"mixed, duplicates drop", "8,1..8, 3", ParseLevels, []int{8, 1, 2, 4, 3}, ""},
		{"one value", "7", ParseLevels, []int{7}, ""},
		{"R32: contexts", "8k,256K,0,8192", ParseContexts, []int{8192, 262144, 0}, ""},
		{"max keeps its place", "8k,max,16k", ParseContexts, []int{8192, Max, 16384}, ""},
		{"contexts double too", "8k..64k", ParseContexts, []int{8192, 16384, 32768, 65536}, ""},
		{"contexts step too", "0..4k+2k", ParseContexts, []int{0, 2048, 4096}, ""},
		{"mega", "1m,512", ParseContexts, []int{1 << 20, 512}, ""},

		{"zero streams", "0,1", ParseLevels, nil, `"0" is below 1`},
		{"negative", "-1", ParseLevels, nil, `"-1" is not a whole number`},
		{"no k among streams", "1k", ParseLevels, nil, `"1k" is not a whole number`},
		{"max is a context only", "max", ParseLevels, nil, `"max" is not a whole number`},
		{"word", "8k,lots", ParseContexts, nil, `"lots" is not a whole number such as`},
		{"empty", "", ParseLevels, nil, "missing"},
		{"hole", "1,,2", ParseLevels, nil, "missing"},
		{"open range", "1..", ParseLevels, nil, "missing"},
		{"backwards", "128..1", ParseLevels, nil, "backwards"},
		{"doubling nothing", "0..8k", ParseContexts, nil, "0 doubled stays 0"},
		{"step of nothing", "1..8+0", ParseLevels, nil, `"0" is below 1`},
		{"a slip of the finger", "1..1000000+1", ParseLevels, nil, "more than 1024"},
		{"fraction", "1.5k", ParseContexts, nil, `"1.5k" is not a whole number`},
		{"absurd", "999999999999m", ParseContexts, nil, "is not a whole number"},
	} {
		got, err := tc.parse(tc.in)
		if !slices.Equal(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %q = %v, %v, want %v, %q", tc.name, tc.in, got, err, tc.want, tc.err)
		}
	}
}

func FuzzParseLists(f *testing.F) {
	for _, s := range []string{"1..128", "1..8+1", "8k,16k,251k,0,max", "1..,", "0..0+0", "..", "1m..9m+1", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for least, parse := range map[int]func(string) ([]int, error){1: ParseLevels, Max: ParseContexts} {
			got, err := parse(s)
			if err != nil {
				continue
			}
			if len(got) == 0 || len(got) > maxLevels {
				t.Errorf("%q: %d entries", s, len(got))
			}
			seen := map[int]bool{}
			for _, n := range got {
				if n < least || n > maxLevel || seen[n] {
					t.Errorf("%q: %d is out of range or stands twice in %v", s, n, got)
				}
				seen[n] = true
			}
		}
	})
}

func TestParseUnits(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want int64 // -1: an error
	}{
		{"4096", 4096}, {"64MiB", 64 << 20}, {"64mib", 64 << 20}, {"1.5KiB", 1536}, {"2 GiB", 2 << 30},
		{"10MB", 10e6}, {"7b", 7}, {"0", 0},
		{"", -1}, {"MiB", -1}, {"-1", -1}, {"64M", -1}, {"1e3", -1}, {"NaN", -1}, {"Inf", -1}, {"99999999999GiB", -1}, {"0x10", -1},
	} {
		got, err := ParseSize(tc.in)
		if err != nil {
			got = -1
		}
		if got != tc.want {
			t.Errorf("ParseSize(%q) = %d (%v), want %d", tc.in, got, err, tc.want)
		}
	}
	for _, tc := range []struct {
		in   string
		want float64
	}{
		{"1%", 0.01}, {" 0.5 %", 0.005}, {"100%", 1}, {"0%", 0},
		{"1", -1}, {"0.01", -1}, {"101%", -1}, {"-1%", -1}, {"NaN%", -1}, {"%", -1},
	} {
		got, err := ParseShare(tc.in)
		if err != nil {
			got = -1
		}
		if got != tc.want {
			t.Errorf("ParseShare(%q) = %g (%v), want %g", tc.in, got, err, tc.want)
		}
	}
}
