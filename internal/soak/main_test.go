package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunRefuses(t *testing.T) {
	for _, tc := range []struct{ name, arg, want string }{
		{"a word", "-many=many", `"many" is no number of streams`},
		{"none", "-many=4000,0", `"0" is no number of streams`},
	} {
		var out, said bytes.Buffer
		if code := run(t.Context(), []string{tc.arg}, &out, &said); code != 2 || !strings.Contains(said.String(), tc.want) {
			t.Errorf("%s: code %d, %q; want 2 and %q", tc.name, code, said.String(), tc.want)
		}
	}
}

func TestLower(t *testing.T) {
	var b bytes.Buffer
	got := lower([]int{4000, 10000}, 20000, &b)
	if want := []int{4000, 9968}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: two descriptors a stream and %d more", got, want, spare)
	}
	if want := "NOT REACHED: 10000 streams need 20064 descriptors, 20000 are allowed here: 9968 streams instead\n"; b.String() != want {
		t.Errorf("said %q, want %q", b.String(), want)
	}
}
