package wire

import (
	"strings"
	"testing"
)

// What no engine sends must cost no more than what engines send. Each row once
// took memory or time out of proportion to its bytes.
func TestHostilePayloads(t *testing.T) {
	for _, v := range []struct {
		name, payload string
		kind          Kind
		choices       int
		parts         int // of the first choice
	}{
		{"a million choices, a hundred bytes of ours each",
			`{"choices":[` + strings.Repeat(`{},`, 1<<20-8) + `{}]}`, Data, maxChoices, 0},
		{"more choices than are told apart",
			`{"choices":[` + strings.Repeat(`{},`, 1000) + `{}]}`, Data, maxChoices, 0},
		{"numbers of a member that nobody reads, once eighty bytes of ours each",
			`{"x":[` + strings.Repeat(`0,`, 1<<20) + `0]}`, Data, 0, 0},
		{"half a million commas in a text are no values",
			`{"choices":[{"delta":{"content":"` + strings.Repeat(`,`, 1<<19) + `"}}]}`, Data, 1, 1},
		{"reasoning under one key again and again, each once compared with all before it",
			`{"choices":[{"delta":{` + reasonings(200_000) + `}}]}`, Data, 1, 200_000},
		{"arrays a million deep",
			strings.Repeat(`[`, 1<<20), Malformed, 0, 0},
		{"objects a hundred thousand deep",
			strings.Repeat(`{"choices":`, 100_000) + `1` + strings.Repeat(`}`, 100_000), Malformed, 0, 0},
	} {
		t.Run(v.name, func(t *testing.T) {
			ev := one(t, v.payload)
			if ev.Kind != v.kind || len(ev.Choices) != v.choices {
				t.Fatalf("kind %d with %d choices, want %d with %d", ev.Kind, len(ev.Choices), v.kind, v.choices)
			}
			if len(ev.Choices) > 0 && len(ev.Choices[0].Parts) != v.parts {
				t.Errorf("%d parts, want %d", len(ev.Choices[0].Parts), v.parts)
			}
		})
	}
}

// reasonings is so many keys of one name, the same text at every tenth.
func reasonings(n int) string {
	var sb strings.Builder
	for i := range n {
		if i > 0 {
			sb.WriteByte(',')
		}
		sb.WriteString(`"reasoning":"` + string(rune('0'+i%10)) + `"`)
	}
	return sb.String()
}

// Counts are what a server claims; a claim that is no count is none.
func TestHostileCounts(t *testing.T) {
	for _, v := range []struct {
		name, number string
		want         int
	}{
		{"negative", "-1", None},
		{"beyond 32 bits: a total of a thousand such must not overflow", "2147483648", None},
		{"the greatest that is believed", "2147483647", 1<<31 - 1},
		{"2^63", "9223372036854775808", None},
		{"beyond all reason", "1e300", None},
		{"infinite", "1e999", None},
		{"not JSON, but read by the parser", "NaN", None},
		{"a text", `"5"`, None},
		{"a fraction is cut", "5.9", 5},
	} {
		t.Run(v.name, func(t *testing.T) {
			ev := one(t, `{"choices":[],"usage":{"completion_tokens":`+v.number+`,"prompt_tokens":1}}`)
			if ev.Usage.CompletionTokens != v.want || ev.Usage.PromptTokens != 1 {
				t.Errorf("%+v, want %d completion tokens and the prompt's", ev.Usage, v.want)
			}
		})
	}
}
