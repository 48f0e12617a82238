package proxy

import (
	"io"
	"net"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/stream"
)

// upgrade passes a 101 on and joins the two connections until one side ends
// (WebSocket, vLLM's realtime endpoint). What runs over it is not looked at.
func (x *exchange) upgrade(ctx *fasthttp.RequestCtx, client *clientConn) {
	head := []byte("HTTP/1.1 101 ")
	head = append(append(head, x.resp.Reason...), "\r\n"...)
	for _, f := range x.resp.Fields {
		// Connection and Upgrade are the answer itself here.
		head = f.Append(head)
	}
	head = append(head, "\r\n"...)
	server, early, err := x.resp.Takeover()
	if err != nil {
		x.refuse(ctx, faultClosed, x.cause(err))
		return
	}
	head = append(head, early...)
	// From here on both sides are read, so a client that leaves is seen.
	x.watched.Disarm()
	x.p.hijacked.Add(1)
	client.hijack(ctx, func(buffered net.Conn) {
		defer x.p.hijacked.Done()
		defer x.end(stream.Cause{Kind: stream.EOF})
		// Shutdown ends an upgraded connection as it ends a stream.
		stop := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() {
			select {
			case <-x.halt.context().Done():
				_ = server.Close()
				_ = client.Close()
			case <-stop:
			}
		})
		defer func() { close(stop); watch.Wait() }()

		_ = client.SetReadDeadline(noDeadline)
		if _, err := client.Write(head); err != nil {
			_ = server.Close()
			return
		}
		var up sync.WaitGroup
		up.Go(func() {
			// Through the server's wrapper: the client's first frames may be
			// in its buffer.
			_, _ = io.Copy(server, buffered)
			_ = server.CloseWrite()
		})
		_, _ = client.ReadFrom(server)
		// The engine has ended; what the client still sends goes nowhere.
		_ = client.Close()
		_ = server.Close()
		up.Wait()
	}, func() {
		defer x.p.hijacked.Done()
		_ = server.Close()
		x.end(stream.Cause{Kind: stream.Gone})
	})
}
