// Package proxy is a transparent reverse proxy for inference servers that
// stamps every streamed token at the upstream socket.
//
// One request, in order:
//
//  1. The listener's connections stamp their reads, so the instant of the
//     request's last byte is known (client.go).
//  2. handle reads the body: small ones whole, larger ones are streamed. It
//     picks the upstream with the fewest open requests and starts watching the
//     client's socket for its leaving (handler.go, backend.go).
//  3. The request goes upstream with the headers the client wrote, in its order
//     and spelling, without the hop-by-hop ones (header.go).
//  4. The response header is passed on at once. The body is a tap: it returns
//     the upstream's bytes as soon as they are in (tap.go). A stream's are framed
//     where they lie and written in one piece (chunks.go); those of a body with
//     a length are written by fasthttp.
//  5. When those bytes have been written, the observer gives them to the meter
//     and folds what the meter saw into the metrics (observer.go). A panic there
//     means that the stream goes on unobserved. A stream that repeats itself may
//     be ended then, in its own dialect (policy.go, cut.go).
//  6. The tap's close, called once in every ending, finishes the record and
//     hands it to the recorder, which never blocks (recorder.go, file.go).
//
// Answers that fasthttp's body stream cannot express leave the server loop by
// hijack: a body without a length for an HTTP/1.0 client (http10.go), and an
// upgraded connection (upgrade.go).
//
// The admin port has its own server (admin.go). Nothing of ours is served on the
// data port but the errors of reply.go.
package proxy
