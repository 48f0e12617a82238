package main

import (
	"bytes"
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
