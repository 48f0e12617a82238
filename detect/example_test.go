package detect_test

import (
	"fmt"
	"strings"

	"github.com/streamgauge/streamgauge/detect"
)

func Example() {
	loop, err := detect.New(detect.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The pieces come as an engine sends them; how it cuts them is no matter.
	reply := "The answer is 42.\n" + strings.Repeat("Wait, let me check again. ", 200) + "\nDone."
	for i := 0; i < len(reply); i += 5 {
		if !loop.FeedString(reply[i:min(i+5, len(reply))]) {
			continue
		}
		if v := loop.Verdict(); v.Kind.Acts() {
			fmt.Printf("%v: from character %d, %d characters again and again: %q\n", v.Kind, v.Onset.Chars, v.Period.Chars, v.Excerpt)
		}
	}
	loop.Finish()
	v := loop.Verdict()
	fmt.Printf("held at %d; %d cycles in all; still running: %v\n", v.ConfirmedAt.Chars, v.Cycles, v.Running)
	// Output:
	// confirmed: from character 18, 26 characters again and again: "Wait, let me check again. "
	// held at 4114; 200 cycles in all; still running: false
}

// A stream that is ended from outside may be in a loop that is not confirmed yet.
func ExampleLoop_Candidate() {
	loop, err := detect.New(detect.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	loop.FeedString("Here is the list.\n" + strings.Repeat("- and the same item once more\n", 12))
	if c, ok := loop.Candidate(); ok {
		fmt.Printf("usable up to character %d; since then %d cycles of %d\n", c.Onset.Chars, c.Cycles, c.Period.Chars)
	}
	// Output:
	// usable up to character 17; since then 12 cycles of 30
}

// Limits that are out of range are all named.
func ExampleLimits_Validate() {
	fmt.Println(detect.Limits{Cycles: 1, PeriodBytes: 8 << 20}.Validate())
	// Output:
	// detect: Cycles is 1, must be 0 (default) or 3 to 1073741824
	// detect: PeriodBytes is 8388608, must be 0 (default) or 1024 to 1048576
}
