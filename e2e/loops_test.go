package e2e

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/streamgauge/streamgauge/enginetest"
	"github.com/streamgauge/streamgauge/enginetest/tinymodel"
	"github.com/streamgauge/streamgauge/loadgen"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stream"
)

// ruleChars is how much repeated text confirms a loop whose four cycles are
// shorter: detect's default.
const ruleChars = 4096

// testLoops runs cells whose streams fall into a loop.
func testLoops(t *testing.T, s *enginetest.Server) {
	st := raise(t, s)
	for _, m := range []struct {
		word        string
		repeats     []string // the words of one cycle
		context     int
		concurrency []int
	}{
		{"loop", tinymodel.LoopWords, 512, []int{1, 8}},
		{"longloop", tinymodel.LongLoopWords, 2048, []int{2, 8}},
		{"drift", tinymodel.LoopWords, 2048, []int{1, 4}}, // after some random words
	} {
		t.Run(m.word, func(t *testing.T) {
			out, run := st.run(t, loadgen.Config{
				Contexts: []int{m.context}, Concurrency: m.concurrency, MaxTokens: 8192, NoPrefill: true,
				// Not reached where every stream loops: the cell ends with
				// the evidence.
				Duration: 4 * windowTime, Settle: settleTime, Ask: "please say " + m.word, Salt: t.Name(),
			}, nil)
			compareTokens(t, run.Records, st.told, out.Header.Start).log(t)
			comparePrompts(t, run, out.Plan.Limit)
			period := utf8.RuneCountInString(strings.Join(m.repeats, " ")) + 1 // each word has a space before it
			looped := 0
			for i := range run.Records {
				if r := &run.Records[i]; r.Phase != stream.Prime && st.told[r.ID] != nil {
					looped += compareLoop(t, r, st.told[r.ID], period)
				}
			}
			for i := range run.Cells {
				c := &run.Cells[i]
				if c.Status != matrix.Looped || c.Loops == 0 || !strings.Contains(c.Message, "loop") {
					t.Errorf("cell %d/%d: %s, %d loops, %q; want it looped", c.Context, c.Concurrency, c.Status, c.Loops, c.Message)
				}
			}
			t.Logf("%d streams looped, with a period of %d characters", looped, period)
		})
	}
}

// compareLoop holds the verdict on a stream against the text that the engine
// sent, and returns 1 if the stream is one that loops.
func compareLoop(t *testing.T, r *stream.Record, s *told, period int) int {
	t.Helper()
	text := []rune(s.text)
	onset, until := repeatIn(text, period)
	i := slices.IndexFunc(r.Loops, stream.Loop.Acts)
	if i < 0 {
		if r.End == stream.Looped {
			t.Errorf("%s: retired without a verdict: %+v", r.ID, r.Loops)
		}
		// What it had read is less than what was sent.
		if read := s.charsAt(r.Events); onset >= 0 && read >= until {
			t.Errorf("%s: ended as %s after %d characters, though a loop from %d on was certain at %d", r.ID, r.End, read, onset, until)
		}
		return 0
	}
	l := r.Loops[i]
	want := stream.Loop{Verdict: "confirmed", Channel: "content", Onset: stream.Some(int64(onset)), Period: stream.Some(int64(period)), ConfirmedAt: stream.Some(int64(until))}
	if l.Verdict != want.Verdict || l.Channel != want.Channel || l.Onset != want.Onset || l.Period != want.Period || l.ConfirmedAt != want.ConfirmedAt {
		t.Errorf("%s: %s in %s from %v with period %v at %v; the engine's text says confirmed in content from %d with period %d at %d",
			r.ID, l.Verdict, l.Channel, l.Onset, l.Period, l.ConfirmedAt, onset, period, until)
	}
	if r.End != stream.Looped || r.Reason == "" {
		t.Errorf("%s: a confirmed loop, but the stream ended as %s, reason %q", r.ID, r.End, r.Reason)
	}
	if at, want := l.OnsetToken, s.tokensAt(onset); !at.OK || at.V != int64(want) {
		t.Errorf("%s: the loop begins at token %v, by the engine's bytes after %d tokens", r.ID, at, want)
	}
	return 1
}

// repeatIn finds, by comparing each character with the one a period before it,
// where the repetition at the end of a text begins and the offset at which it is
// long enough to be certain; -1 when it is not.
func repeatIn(text []rune, period int) (onset, until int) {
	onset = len(text)
	for i := len(text) - 1; i >= period && text[i] == text[i-period]; i-- {
		onset = i - period
	}
	until = onset + max(4*period, ruleChars)
	if until > len(text) {
		return -1, -1
	}
	return onset, until
}

// charsAt is the length of the text of the first n events.
func (s *told) charsAt(n int) int {
	if n == 0 {
		return 0
	}
	return s.events[n-1].chars
}

// tokensAt is the number of tokens in the events that end at or before a
// character.
func (s *told) tokensAt(char int) int {
	n := 0
	for _, e := range s.events {
		if e.chars > char {
			break
		}
		n = e.tokens()
	}
	return n
}
