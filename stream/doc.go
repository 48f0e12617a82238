// Package stream measures one streamed reply. It is shared by the proxy and
// the load generator, so that "arrival" is defined by one piece of code.
//
//  1. A [Meter] is told the instants of the request (RequestReceived, Sent,
//     Headers) and given the bytes of every read with the instant of their
//     arrival (Observe).
//  2. Package wire cuts the bytes into events. Each generated event enters the
//     log with its instant, its text length and what it says of token counts;
//     its gap to the one before enters a histogram.
//  3. Texts go to package detect, one detector per choice and channel. A
//     verdict's onset is mapped back to an event, and by it to an instant.
//  4. [Meter.Finish] is told why the stream is over. It picks the best source
//     of token counts that covers the stream, judges the ending and makes the
//     [Record], one flat line of run.ndjson.
//  5. [WindowOf] cuts the part of a log out that belongs to a measuring window.
//
// The definitions are those of docs/measuring.md, sections 1 to 3. The package
// does not know who opened the stream and owns no goroutine.
package stream
