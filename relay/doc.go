// Package relay carries the bodies of streamed responses from the engine's
// socket to the client's, on an event loop.
//
// A goroutine a stream costs a park, a wake and a system call that finds nothing
// for every token. Here one thread waits for all sockets, and a token is a
// receive and a send. Its steps, for each batch of ready sockets:
//
//  1. receive what each engine socket has, with the kernel's stamp;
//  2. follow the chunk framing through it, to find the end, and to forward
//     nothing that is not of this body;
//  3. send it to the client, byte for byte, framing included;
//  4. when no socket has more, and only then, tell the streams' sinks what was
//     forwarded, so that they can parse it: the tokens of a decode step are all
//     ahead of the parsing of any.
//
// A client that does not take its bytes has them queued, at most one receive,
// and its engine is not read meanwhile. A client that leaves shows in the same
// wait. The loop never dials, logs or waits for a lock that is held for long;
// what a stream's end costs is paid in a goroutine of its own.
package relay
