package loadgen_test

import (
	"fmt"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/loadgen"
)

// A plan weighs each cell against the server before anything is sent.
func ExampleNewPlan() {
	info := engine.Info{MaxModelLen: 32768, KVTokens: 40000}
	plan, err := loadgen.NewPlan(loadgen.Config{
		Contexts:    []int{8192, loadgen.Max},
		Concurrency: []int{1, 4},
		NoPrefill:   true,
	}, info)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range plan.Steps {
		fmt.Println(s.Context, s.Concurrency, s.Fit.OK, s.Fit.Message)
	}
	fmt.Println(plan.Runnable(), "cells,", plan.Estimate)
	// Output:
	// 8192 1 true 1·(8192 + 4096) = 12288 tokens fits the KV capacity of 40000
	// 8192 4 false 4·(8192 + 4096) = 49152 tokens is over the KV capacity of 40000
	// 27648 1 true 1·(27648 + 4096) = 31744 tokens fits the KV capacity of 40000
	// 27648 4 false 4·(27648 + 4096) = 126976 tokens is over the KV capacity of 40000
	// 2 cells, 1m10s
}
