// Command soak holds the proxy to its promises for a long time, and with many
// streams at once. Nothing is needed but the module: the engine behind the proxy
// is here (engine.go), and every byte it sends is a function of the request
// (script.go), so that the client (client.go) knows what is to come.
//
//  1. The proxy is built and started as a process of its own (proxy.go).
//  2. With -many, that many streams are opened at once, all through one process
//     (many.go): every byte is compared, and the proxy's descriptors and memory
//     are to be back where they were after it. It is make many.
//  3. Without, a number of slots ask for streams and answers without a pause, and
//     clients, the engine and the texts misbehave at random (faults.go, soak.go).
//     What has no fault is to arrive exactly; a broken body is to stay broken; the
//     upstream of a client that left is to be left too. Memory is read every few
//     seconds (watch.go): the means of the first and of the last quarter are to
//     be within 10 % of one another, descriptors and goroutines where they were.
//     It is make soak.
//  4. What was measured is printed, with the first few of each kind of fault;
//     exit code 1 if a promise was broken.
package main
