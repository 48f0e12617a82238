// Package engine asks a server what it is and how it fares.
//
// A measurement starts with facts about the server, and each fact has a source:
//
//  1. ParseURL takes the address apart: base, credentials, query. Credentials
//     stay in the Target and in its Redactor; no error, fact or String shows them.
//  2. Probe reads /v1/models, tells the engine by what it serves (vllm.go,
//     sglang.go, llamacpp.go), chooses the model, and collects version, limits
//     and KV capacity (docs/measuring.md, "KV capacity").
//  3. Defaults names the request switches that make such an engine tell its
//     token counts; Negotiate tries them with one-token requests and drops what
//     the server refuses; Switches.Body writes the request.
//  4. CountTokens counts a prompt the server's own way; Calibrate finds the text
//     length that hits a number of tokens.
//  5. A Scraper reads running, waiting and the token counters while a cell runs,
//     by exact metric names, on a connection of its own.
//  6. Abort ends a request that outlives its connection (SGLang).
//
// Everything here runs before, between or beside the measured streams, never in
// them, so it uses net/http and trades speed for plainness.
package engine
