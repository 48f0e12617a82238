package readme

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		want       [][]string
	}{
		{"words", "loadgen probe  --url http://x", [][]string{{"loadgen", "probe", "--url", "http://x"}}},
		{"quotes keep spaces and operators", `loadgen --note gpu='RTX | 6000' --ask "a > b"`, [][]string{{"loadgen", "--note", "gpu=RTX | 6000", "--ask", "a > b"}}},
		{"an empty word", `loadgen --model ''`, [][]string{{"loadgen", "--model", ""}}},
		{"several commands", "proxy --upstream u & loadgen --url v | head -1; true", [][]string{{"proxy", "--upstream", "u"}, {"loadgen", "--url", "v"}, {"head", "-1"}, {"true"}}},
		{"redirections name no argument", "loadgen report a.ndjson >out.txt 2>/dev/null", [][]string{{"loadgen", "report", "a.ndjson"}}},
		{"assignments and comments", "KEY=x loadgen probe # a | b", [][]string{{"loadgen", "probe"}}},
		{"nothing", "  # only a remark", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, split(tc.line)); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.line, d)
			}
		})
	}
}

func TestShown(t *testing.T) {
	text := "```sh\nloadgen \\\n  --url x\nproxy\n```\n\n    loadgen indented\n\n```yaml\nloadgen: 1\n```\n"
	want := []Command{{"d.md:2", []string{"loadgen", "--url", "x"}}, {"d.md:4", []string{"proxy"}}}
	if d := cmp.Diff(want, shown("d.md", text)); d != "" {
		t.Errorf("commands of the sh block (-want +got):\n%s", d)
	}
}
