package detect

import (
	"strings"
	"testing"
)

// judge runs text through l in pieces of size bytes (0: whole) and gives the
// verdicts by kind.
func judge(t testing.TB, l *Loop, text string, size int) map[Kind]Verdict {
	t.Helper()
	l.Reset()
	if size == 0 {
		size = max(len(text), 1)
	}
	for i := 0; i < len(text); i += size {
		l.FeedString(text[i:min(i+size, len(text))])
	}
	l.Finish()
	kinds := make(map[Kind]Verdict)
	level := None
	for _, v := range l.Verdicts() {
		if v.Kind <= level {
			t.Fatalf("level fell from %v to %v", level, v.Kind)
		}
		level = v.Kind
		kinds[v.Kind] = v
	}
	return kinds
}

func newLoop(t testing.TB, limits Limits) *Loop {
	t.Helper()
	l, err := New(limits)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSmoke(t *testing.T) {
	l := newLoop(t, Limits{})
	got := judge(t, l, "Introduction.\n"+strings.Repeat("duct", 1200), 7)
	t.Logf("%+v", got)
	got = judge(t, l, "Introduction.\n"+strings.Repeat(" \n", 1200), 7)
	t.Logf("%+v", got)
}
