package sim

import "time"

// plain is an engine of round numbers: 50 ms to the first token of a cached
// prompt, 20 µs per uncached prompt token, a token every 10 ms, whatever the load.
func plain() Profile {
	return Profile{
		Name:        "plain",
		Version:     "0.32.0",
		Model:       "plain",
		MaxModelLen: 32768,
		KVTokens:    262144,
		MaxRunning:  256,
		Speed: Speed{
			Prefill: Curve{{Tokens: 32768, Time: 32768 * 20 * time.Microsecond}},
			TTFT:    NewSurface([]Sample{{Time: 50 * time.Millisecond}}),
			TBT:     NewSurface([]Sample{{Time: 10 * time.Millisecond}}),
		},
	}
}

// demo is small and quick, and its Suggested plan of eight cells meets every
// kind of cell: (4096, 2) loops early in every stream and stays below half
// clean, (4096, 4) loops late in every stream and is salvaged, (4096, 8) needs
// 49,152 KV tokens of 32,768; the other five are valid.
func demo() Profile {
	step := func(us int) time.Duration { return time.Duration(us) * time.Microsecond }
	return Profile{
		Name:        "demo",
		Version:     "0.32.0",
		Model:       "demo-1b",
		Root:        "streamgauge/demo-1b",
		MaxModelLen: 8192,
		KVTokens:    32768,
		MaxRunning:  64,
		Speed: Speed{
			Prefill: Curve{
				{Tokens: 1024, Time: step(20_000)},
				{Tokens: 4096, Time: step(100_000)},
				{Tokens: 8192, Time: step(240_000)},
			},
			TTFT: NewSurface([]Sample{
				{1024, 1, step(15_000)}, {1024, 8, step(40_000)},
				{4096, 1, step(20_000)}, {4096, 8, step(60_000)},
			}),
			TBT: NewSurface([]Sample{
				{1024, 1, step(2_000)}, {1024, 8, step(2_700)},
				{4096, 1, step(2_300)}, {4096, 8, step(3_400)},
			}),
		},
		Chunks: []int{3, 1, 5, 2, 4},
		Loops: []LoopRule{
			{Context: 4096, Concurrency: 2, Share: 1, OnsetMin: 200 * time.Millisecond, OnsetMax: 350 * time.Millisecond, PeriodMin: 12, PeriodMax: 40, Faster: 2},
			{Context: 4096, Concurrency: 4, Share: 1, OnsetMin: 1800 * time.Millisecond, OnsetMax: 2600 * time.Millisecond, PeriodMin: 12, PeriodMax: 40, Faster: 2},
		},
		Suggested: Plan{
			Contexts:    []int{1024, 4096},
			Concurrency: []int{1, 2, 4, 8},
			MaxTokens:   2048,
			Settle:      500 * time.Millisecond,
			Duration:    4 * time.Second,
		},
	}
}
