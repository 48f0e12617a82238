package detect

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func newLoop(t testing.TB, limits Limits) *Loop {
	t.Helper()
	l, err := New(limits)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// judge runs text through l in pieces of size bytes (0: whole) and gives the
// verdicts by kind.
func judge(t testing.TB, l *Loop, text string, size int) map[Kind]Verdict {
	t.Helper()
	l.Reset()
	level := None
	rose := func(rose bool) {
		if now := l.Level(); rose != (now > level) || now < level {
			t.Fatalf("told %v when the level went from %v to %v", rose, level, now)
		}
		level = l.Level()
	}
	if size == 0 {
		size = max(len(text), 1)
	}
	for i := 0; i < len(text); i += size {
		rose(l.FeedString(text[i:min(i+size, len(text))]))
	}
	rose(l.Finish())
	kinds := make(map[Kind]Verdict)
	last := None
	for _, v := range l.Verdicts() {
		if v.Kind <= last {
			t.Fatalf("%v came after %v", v.Kind, last)
		}
		last = v.Kind
		kinds[v.Kind] = v
	}
	return kinds
}

// highest is the level of the verdicts, None if there are none.
func highest(kinds map[Kind]Verdict) Kind {
	level := None
	for kind := range kinds {
		level = max(level, kind)
	}
	return level
}

// randomLetters has no repetition worth the name.
func randomLetters(seed uint64, runes int, alphabet string) string {
	r := rand.New(rand.NewPCG(seed, 7))
	letters := []rune(alphabet)
	out := make([]rune, runes)
	for i := range out {
		out[i] = letters[r.IntN(len(letters))]
	}
	return string(out)
}

const latin = "abcdefghijklmnopqrstuvwxyz     ABCDEF.,"

// The vectors of R17. They must come out alike for pieces of 31, 7 and 1 byte.
func TestR17(t *testing.T) {
	var asserts, steps strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&asserts, "require(square(%d) == %d)  # item %d\n", i, i*i, i)
	}
	for i := range 3000 {
		fmt.Fprintf(&steps, "Step %d: I will now check again. ", i)
	}
	random := randomLetters(1, 1500, latin)
	longest, tooLong := randomLetters(2, 32768, latin), randomLetters(3, 32769, latin)
	cjk := func(n int) string {
		return randomLetters(uint64(n), n, "资料商店结论检查数据报告文件输出继续思考问题答案😊🔥🚀")
	}
	row := "| a | bc |"

	for _, c := range []struct {
		name string
		text string
		want Kind
		// of a confirmed one, in characters
		onset, period, at int64
	}{
		{"a word for ever, after a title", "Introduction.\n" + strings.Repeat("duct", 1200), Confirmed, 14, 4, 4110},
		{"one word short of 4096", strings.Repeat("duct", 1023), Suspected, 0, 0, 0},
		{"4096 to the dot", strings.Repeat("duct", 1024), Confirmed, 0, 4, 4096},
		{"three copies of 1500", strings.Repeat(random, 3), Suspected, 0, 0, 0},
		{"four copies of 1500", strings.Repeat(random, 4), Confirmed, 0, 1500, 6000},
		{"the longest period", strings.Repeat(longest, 4), Confirmed, 0, 32768, 131072},
		{"one above the longest period", strings.Repeat(tooLong, 6), None, 0, 0, 0},
		{"white space", strings.Repeat(" ", 30000), WhiteSpace, 0, 0, 0},
		{"numbered asserts", asserts.String(), Counter, 0, 0, 0},
		{"a counting step", steps.String(), Counter, 0, 0, 0},
		{"a table row", strings.Repeat(row, 20*30), Confirmed, 0, 10, 4096},
		{"CJK and emoji, 222", strings.Repeat(cjk(222), 20), Confirmed, 0, 222, 4096},
		{"CJK and emoji, 384", strings.Repeat(cjk(384), 11), Confirmed, 0, 384, 4096},
		{"CJK and emoji, 9560", strings.Repeat(cjk(9560), 4), Confirmed, 0, 9560, 38240},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLoop(t, Limits{})
			for _, size := range []int{31, 7, 1, 0} {
				got := judge(t, l, c.text, size)
				if level := highest(got); level != c.want {
					t.Errorf("pieces of %d: %v, want %v", size, level, c.want)
				}
				if c.want != Confirmed {
					continue
				}
				v := got[Confirmed]
				if v.Onset.Chars != c.onset || v.Period.Chars != c.period || v.ConfirmedAt.Chars != c.at {
					t.Errorf("pieces of %d: onset %d, period %d, at %d, want %d, %d, %d", size, v.Onset.Chars, v.Period.Chars, v.ConfirmedAt.Chars, c.onset, c.period, c.at)
				}
			}
		})
	}
}

// R17: text of two channels is not one text.
func TestR17ChannelsAreNotJoined(t *testing.T) {
	reasoning, content := newLoop(t, Limits{}), newLoop(t, Limits{})
	for range 600 / 12 {
		reasoning.FeedString("check again ")
		content.FeedString("check again ")
	}
	for _, l := range []*Loop{reasoning, content} {
		l.Finish()
		if l.Level() != None {
			t.Errorf("600 characters came out as %v", l.Level())
		}
	}
}

func TestVerdict(t *testing.T) {
	const lead = "Zürich: "
	cycle := randomLetters(4, 300, "abcäöü漢 ")
	l := newLoop(t, Limits{})
	got := judge(t, l, lead+strings.Repeat(cycle, 20), 64)
	v := got[Confirmed]
	want := Verdict{
		Kind:        Confirmed,
		Onset:       Extent{int64(len(lead)), 8},
		Period:      Extent{int64(len(cycle)), 300},
		ConfirmedAt: v.ConfirmedAt,
		Length:      Extent{int64(20 * len(cycle)), 6000},
		Cycles:      20,
		Running:     true,
		SHA256:      sha256.Sum256([]byte(cycle)),
		Excerpt:     v.Excerpt,
	}
	if v != want {
		t.Errorf("got  %+v\nwant %+v", v, want)
	}
	if v.ConfirmedAt.Chars != 8+4096 {
		t.Errorf("confirmed at %d, want %d", v.ConfirmedAt.Chars, 8+4096)
	}
	if len(v.Excerpt) > ExcerptBytes || !strings.HasPrefix(cycle, v.Excerpt) || !utf8.ValidString(v.Excerpt) || v.Excerpt == "" {
		t.Errorf("excerpt %q is not the beginning of %q", v.Excerpt, cycle)
	}
	if s := got[Suspected]; s.Onset != v.Onset || s.Period != v.Period || s.SHA256 != v.SHA256 || s.ConfirmedAt.Chars != 8+1024 {
		t.Errorf("suspected %+v, confirmed %+v", s, v)
	}
	if l.Verdict() != v {
		t.Errorf("the highest is %+v, want %+v", l.Verdict(), v)
	}
}

// The digest is of the cycle as it stands at the onset even when that has left
// the window.
func TestDigestOfLongCycles(t *testing.T) {
	limits := Limits{PeriodBytes: 1024, Cycles: 40}
	cycle := randomLetters(5, 900, latin)
	got := judge(t, newLoop(t, limits), "#"+strings.Repeat(cycle, 41), 100)
	if v := got[Confirmed]; v.SHA256 != sha256.Sum256([]byte(cycle)) || v.Onset.Bytes != 1 {
		t.Errorf("got %+v", v)
	}
}

func TestRecovers(t *testing.T) {
	l := newLoop(t, Limits{})
	l.FeedString("Well:" + strings.Repeat("again and ", 500))
	v := l.Verdict()
	if v.Kind != Confirmed || !v.Running || v.Length.Chars != 5000 {
		t.Errorf("in the loop: %+v", v)
	}
	l.FeedString("again, ")
	if v = l.Verdict(); v.Running || v.Length.Chars != 5005 || v.Cycles != 500 {
		t.Errorf("after the loop: %+v", v)
	}
	text := proseText(300_000)
	l.FeedString(text)
	l.FeedString(strings.Repeat("and again ", 1000))
	l.Finish()
	if v = l.Verdict(); v.Running || v.Length.Chars != 5005 || v.Onset.Chars != 5 {
		t.Errorf("long after: %+v", v)
	}
	if fed := l.Fed(); fed.Chars != int64(5+5000+7+len(text)+10000) {
		t.Errorf("fed %d characters", fed.Chars)
	}
}

// In a script of three bytes a character a window is full of copies long before
// 4,096 characters are there.
func TestExactIsNotNear(t *testing.T) {
	for _, period := range []int{9, 60, 222} {
		got := judge(t, newLoop(t, Limits{}), strings.Repeat(randomLetters(12, period, "资料商店结论检查数据报告文件输出继续思考"), 6000/period), 64)
		if v, ok := got[Near]; ok {
			t.Errorf("period %d: near at %d", period, v.ConfirmedAt.Chars)
		}
		if _, ok := got[Confirmed]; !ok {
			t.Errorf("period %d: not confirmed", period)
		}
	}
}

func TestSuspectedEnds(t *testing.T) {
	l := newLoop(t, Limits{})
	got := judge(t, l, strings.Repeat("again and ", 200)+proseText(3000), 50)
	if v := got[Suspected]; v.Running || v.Length.Chars != 2000 || v.Cycles != 200 {
		t.Errorf("got %+v", v)
	}
}

func TestCandidate(t *testing.T) {
	long := randomLetters(6, 9000, latin)
	for _, c := range []struct {
		name, text string
		want       bool
		onset      int64
		period     int64
	}{
		{"nothing", "", false, 0, 0},
		{"prose", proseText(20_000), false, 0, 0},
		{"255 characters", strings.Repeat("ab", 127) + "a", false, 0, 0},
		{"256 characters", strings.Repeat("ab", 128), true, 0, 2},
		{"two cycles, where the anchors need a third", proseText(5000) + "#" + long + long, true, 5001, 9000},
		{"one character less", proseText(5000) + "#" + (long + long)[:17999], false, 0, 0},
		{"over for one character", strings.Repeat("ab", 500) + "!", false, 0, 0},
		{"white space", strings.Repeat("\n ", 400), false, 0, 0},
		{"CJK", "。" + strings.Repeat("输出继续思考", 50), true, 1, 6},
		{"more than the window, not confirmed", "#" + strings.Repeat(randomLetters(7, 32000, latin), 3), true, 1, 32000},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLoop(t, Limits{})
			for text := c.text; text != ""; {
				n := min(37, len(text))
				l.FeedString(text[:n])
				text = text[n:]
			}
			got, ok := l.Candidate()
			if ok != c.want || got.Onset.Chars != c.onset || got.Period.Chars != c.period {
				t.Errorf("got %v %+v, want %v, onset %d, period %d", ok, got, c.want, c.onset, c.period)
			}
			if ok && got.Length.Chars != l.Fed().Chars-c.onset {
				t.Errorf("length %d of %d", got.Length.Chars, l.Fed().Chars)
			}
		})
	}
}

func TestCandidateOfConfirmed(t *testing.T) {
	l := newLoop(t, Limits{})
	l.FeedString(strings.Repeat("ab ", 3000))
	if c, ok := l.Candidate(); !ok || c.Length.Chars != 9000 || c.Period.Chars != 3 {
		t.Errorf("while it runs: %v %+v", ok, c)
	}
	l.FeedString("over. ")
	if c, ok := l.Candidate(); ok {
		t.Errorf("after it: %+v", c)
	}
}

func TestWhiteSpace(t *testing.T) {
	aperiodic := func(n int, alphabet string) string { return randomLetters(uint64(n), n, alphabet) }
	for _, c := range []struct {
		name, text string
		want       bool
		onset, at  int64
		period     int64
	}{
		{"1023", "a" + strings.Repeat(" ", 1023) + "b", false, 0, 0, 0},
		{"1024", "a" + strings.Repeat(" ", 1024) + "b", true, 1, 1025, 1},
		{"lines", `{"a": 1,` + strings.Repeat("\n  ", 700), true, 8, 1032, 3},
		{"in no order", "漢字" + aperiodic(5000, " \n\t\r"), true, 2, 1026, 0},
		{"of three bytes", "漢字" + aperiodic(1030, "\u3000\u2003\u2028\u205f\u1680"), true, 2, 1026, 0},
		{"of two bytes, by one", "é" + strings.Repeat("\u00a0\u0085", 600), true, 1, 1025, 2},
		{"zero width is not white", strings.Repeat("\u200b", 3000), false, 0, 0, 0},
		{"two half floods", strings.Repeat(" ", 700) + "x" + strings.Repeat(" ", 700), false, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLoop(t, Limits{})
			for _, size := range []int{1, 7, 64, 0} {
				got := judge(t, l, c.text, size)
				v, ok := got[WhiteSpace]
				if ok != c.want || v.Onset.Chars != c.onset || v.ConfirmedAt.Chars != c.at || v.Period.Chars != c.period {
					t.Errorf("pieces of %d: got %v %+v", size, ok, v)
				}
				if _, ok := got[Confirmed]; ok && c.want {
					t.Error("a cycle of white space was confirmed")
				}
			}
		})
	}
}

func TestWhiteSpaceEnds(t *testing.T) {
	got := judge(t, newLoop(t, Limits{}), "a"+strings.Repeat(" \n", 1000)+"b and so on", 5)
	if v := got[WhiteSpace]; v.Running || v.Length.Chars != 2000 || v.Cycles != 1000 {
		t.Errorf("got %+v", v)
	}
}

func TestLimits(t *testing.T) {
	if err := (Limits{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	bad := Limits{Cycles: 2, Chars: -1, WhiteSpace: 3, PeriodBytes: 2 << 20, PeriodChars: -5}
	err := bad.Validate()
	for _, field := range []string{"Cycles is 2", "Chars is -1", "WhiteSpace is 3", "PeriodBytes is 2097152", "PeriodChars is -5"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %q", err, field)
		}
	}
	if _, err := New(bad); err == nil {
		t.Error("New took them")
	}
}

// Each limit changes the outcome.
func TestLimitsAreHeld(t *testing.T) {
	for _, c := range []struct {
		name        string
		limits      Limits
		text        string
		with, whout Kind
	}{
		{"cycles", Limits{Cycles: 8}, strings.Repeat(randomLetters(8, 1200, latin), 5), Suspected, Confirmed},
		{"characters", Limits{Chars: 2048}, strings.Repeat("again ", 400), Confirmed, Suspected},
		{"white space", Limits{WhiteSpace: 200}, strings.Repeat(" ", 300), WhiteSpace, None},
		{"bytes of a period", Limits{PeriodBytes: 2048}, strings.Repeat(randomLetters(9, 2049, latin), 5), None, Confirmed},
		{"characters of a period", Limits{PeriodChars: 99}, strings.Repeat(randomLetters(10, 100, latin), 60), None, Confirmed},
	} {
		t.Run(c.name, func(t *testing.T) {
			exact := func(kinds map[Kind]Verdict) Kind {
				delete(kinds, Near)
				return highest(kinds)
			}
			if got := exact(judge(t, newLoop(t, c.limits), c.text, 0)); got != c.with {
				t.Errorf("with %+v: %v, want %v", c.limits, got, c.with)
			}
			if got := exact(judge(t, newLoop(t, Limits{}), c.text, 0)); got != c.whout {
				t.Errorf("by default: %v, want %v", got, c.whout)
			}
		})
	}
}

func TestKind(t *testing.T) {
	for kind, want := range map[Kind]string{None: "none", Suspected: "suspected", Confirmed: "confirmed", WhiteSpace: "whitespace", Near: "near", Counter: "counter", Engine: "engine", 99: "kind(99)"} {
		if got := kind.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for kind := None; kind <= Engine; kind++ {
		want := kind == Confirmed || kind == WhiteSpace || kind == Engine
		if got := kind.Acts(); got != want {
			t.Errorf("%v acts: %v, want %v", kind, got, want)
		}
	}
}

// A state that has been through anything judges the next text as a new one does.
func TestReset(t *testing.T) {
	texts := []string{
		strings.Repeat("loop ", 3000) + proseText(1000),
		proseText(200_000),
		strings.Repeat(" \n", 3000),
		"short",
		codeText(30_000) + strings.Repeat(randomLetters(11, 5000, latin), 5),
		strings.Repeat("Item 1 of 2: look again, it is still the same sentence. ", 20),
	}
	used := newLoop(t, Limits{})
	for _, before := range texts {
		for i, text := range texts {
			judge(t, used, before, 901)
			got, want := judge(t, used, text, 901), judge(t, newLoop(t, Limits{}), text, 901)
			if len(got) != len(want) {
				t.Fatalf("text %d: %v, new: %v", i, got, want)
			}
			for kind := range want {
				if got[kind] != want[kind] {
					t.Errorf("text %d: got %+v, new: %+v", i, got[kind], want[kind])
				}
			}
		}
	}
}

func TestFinishEndsIt(t *testing.T) {
	l := newLoop(t, Limits{})
	l.FeedString(strings.Repeat("ab", 2047))
	l.Finish()
	fed := l.Fed()
	if l.FeedString("abab") || l.Finish() || l.Fed() != fed {
		t.Error("text counted after Finish")
	}
}

// Invalid UTF-8 is judged byte by byte and never confuses the counts.
func TestInvalidUTF8(t *testing.T) {
	for name, text := range map[string]string{
		"lone continuations":   strings.Repeat("\x80", 8000),
		"lone lead bytes":      strings.Repeat("\xe6", 8000),
		"lone surrogates":      strings.Repeat("\xed\xa0\xbd", 5000),
		"cut characters":       strings.Repeat("漢\xe6\xbc", 3000),
		"stray in a word":      strings.Repeat("wo\xffrd ", 3000),
		"continuations first":  "\x80\x80\x80" + strings.Repeat("\x80é", 4000),
		"ends in a character":  strings.Repeat("é", 4096)[:8191],
		"every byte, for ever": strings.Repeat(everyByte(), 40),
	} {
		t.Run(name, func(t *testing.T) {
			checkOracle(t, Limits{}, []byte(text), 1, 5, 64, 0)
		})
	}
}

func everyByte() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}
