// Package relay is an event loop that takes requests from clients to engines and
// carries the responses back.
//
// A goroutine a stream costs a park, a wake and a system call that finds nothing
// for every token, and some ten wakes more at its start and end. Here one thread
// waits for all sockets: a token is a receive and a send, a short request two of
// each. Its steps, for each batch of ready sockets:
//
//  1. receive what each engine socket has, with the kernel's stamp;
//  2. follow the framing of the body through it, to find the end, and to forward
//     nothing that is not of this body;
//  3. send it to the client, byte for byte, framing included;
//  4. begin the requests that have come, as the Front decides: it is shown what a
//     client has sent, and returns an Exchange, or takes the client away;
//  5. when no socket has more, or a few reads at a time, tell the streams' sinks
//     what was forwarded, so that they can parse it: the tokens that were ready
//     together are all ahead of the parsing of any. Where many streams are open,
//     half a second's worth of one is told together;
//  6. after that, tell the sinks of the streams that have ended.
//
// What the loop is not made for it gives to Front.Serve, with what has been read,
// at any step before the client has a byte of the response. A client that does not
// take its bytes has them queued, at most one receive, and its engine is not read
// meanwhile. A client that leaves shows in the same wait. The loop never looks up a
// name, waits for a writer, or for a lock that is held for long.
package relay
