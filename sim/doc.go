// Package sim is a simulated inference engine: a whole server that speaks as
// vLLM, SGLang or llama.cpp do, with speeds, a prompt cache, a KV budget, an
// admission queue and loops that are known exactly, because the package keeps a
// log of what it did. Tests and the demo compare the product's numbers with
// that log. Nothing here imports the product's own parsing.
//
// One request goes through these steps:
//
//  1. server.go reads it whole and notes the arrival; request.go checks it the
//     way the profile's Dialect does, tokenizer.go counts its prompt.
//  2. scheduler.go queues it and admits it, first come first served, when a
//     running slot and KV blocks (cache.go) are free. Blocks whose text prefix
//     was computed before are cached.
//  3. Prefill and each decode step take the time that the profile's Speed gives
//     for (prompt tokens, sequences running). When that number changes, work in
//     progress keeps the share it has done and continues at the new speed.
//  4. stream.go sleeps until the next absolute instant, takes the step's text
//     from prose.go, dresses it in the dialect (vllm.go, sglang.go,
//     llamacpp.go) and hands it to the HTTP layer: one event, one HTTP chunk.
//  5. truth.go logs the instant of every hand-over and why the request ended.
//
// A Profile says what the engine is. Plain and demo profiles are written out in
// builtin.go; the published matrices are fitted to their rows by seed.go.
// Script is the other half: a raw upstream that writes given bytes at given
// times and ends as badly as asked.
//
// Everything runs on time.Now and timers, hence in a testing/synctest bubble
// too, where all instants are exact.
package sim
