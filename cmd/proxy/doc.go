// Command proxy is a transparent reverse proxy in front of an inference server.
//
//	proxy --upstream http://127.0.0.1:8000 --listen :9000
//
// It forwards every byte unchanged, stamps every streamed token at the socket,
// judges whether the text repeats itself, and exposes it all on an admin port:
// Prometheus metrics on /metrics, a record of each stream on /records.
//
// proxy check-config reads the settings and says every mistake; proxy version
// prints the version. At SIGHUP policies and certificates are read again.
//
// Exit codes: 0 stopped after a drain in which every stream ended; 1 it could
// not run, or streams had to be cut at the end of the drain; 2 usage or
// configuration; 130 a second signal ended the drain.
package main
