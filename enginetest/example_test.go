package enginetest_test

import (
	"context"
	"fmt"
	"os"

	"github.com/streamgauge/streamgauge/enginetest"
)

// A TestMain that shares one vLLM between its tests. In a single test,
// enginetest.Run does the same and stops the engine at its end.
func ExampleEngine_Start() {
	ctx := context.Background()
	vllm, err := enginetest.Install(ctx, enginetest.VLLM, os.Stderr)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := vllm.Start(ctx, enginetest.Options{Slots: 32, ContextTotal: 65536})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Stop()
	fmt.Println(s.URL, s.MetricsURL, s.Model)
}
