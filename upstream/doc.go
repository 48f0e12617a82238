// Package upstream is an HTTP/1.1 client that keeps the instant of every read.
//
// The steps of one request:
//
//  1. Client.Do takes the last used connection of the pool that is still open
//     and quiet, or dials one: TCP and TLS are up before the next step.
//  2. The clock is read (Response.Sent) and the request is written, its head
//     exactly as the caller spelled it.
//  3. If the connection came from the pool and turns out to be dead, without a
//     byte of an answer, the request is sent once more, on a fresh one.
//  4. The response head is read; interim (1xx) responses go to Request.Interim.
//     How the body will end is settled from the head, strictly.
//  5. Response.Read reads the socket straight into the caller's buffer and takes
//     the chunk framing out in place. So the bytes of one Read came from one
//     socket read, Response.At is exact for all of them, and they are handed
//     out before the framing that follows them has arrived.
//  6. Response.Close gives the connection back if the body was read to its
//     end, else aborts it.
//
// There is no HTTP/2, no proxy from the environment, no redirect, no
// decompression and no header that was not asked for, but for Host and framing.
package upstream
