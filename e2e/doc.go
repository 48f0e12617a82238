// Package e2e holds the tests of the whole chain: a real llama-server and a real
// vLLM, our proxy in front of them, our load generator in front of that.
//
//  1. Each engine is started once, with the tiny model whose last prompt word
//     says what it does (docs/engines.md).
//  2. Between the proxy and the engine stands a relay. It copies bytes and keeps
//     them, with the times before and after each write (relay_test.go).
//  3. From the kept bytes the engine's own word on each stream is read, by
//     X-Request-Id: counts per event, final usage, text. Only net/http's heads
//     and encoding/json are used, none of the product's parsing (told_test.go).
//  4. Records, cells and counters are compared with that (compare_test.go).
//
// The tests skip unless STREAMGAUGE_E2E=1; make e2e sets it. The run files are
// copied into the folder $STREAMGAUGE_E2E_OUT if that is set.
package e2e
