package proxy

import (
	"strconv"

	"github.com/valyala/fasthttp"
)

// errorHeader marks the answers that are ours, not the engine's.
const errorHeader = "X-Streamgauge-Error"

// fault is an answer that the proxy makes itself.
type fault struct {
	status  int
	reason  string // machine-readable: the header's value and the error's code
	message string
}

var (
	faultConnect    = fault{502, "connect", "The inference server cannot be reached."}
	faultClosed     = fault{502, "closed", "The inference server closed the connection before it answered."}
	faultResponse   = fault{502, "response", "The inference server's answer is not valid HTTP."}
	faultPoolFull   = fault{503, "pool_full", "All connections to the inference server are in use."}
	faultDraining   = fault{503, "draining", "The proxy is shutting down."}
	faultHeaderWait = fault{504, "header_wait", "The inference server did not answer in time."}
	faultTooLarge   = fault{413, "too_large", "The request body is over the proxy's limit."}
	faultHeaderSize = fault{431, "header_too_large", "The request's header is over the proxy's limit."}
	faultRequest    = fault{400, "bad_request", "The request is not valid HTTP/1.1."}
	faultSlow       = fault{408, "client_read", "The request did not come in time."}
	faultMethod     = fault{405, "connect_method", "The proxy does not serve CONNECT."}
	faultInternal   = fault{500, "internal", "The proxy failed; the engine may still have served the request."}
)

// body is the error in OpenAI's shape.
func (f fault) body() []byte {
	kind := "invalid_request_error"
	if f.status >= 500 {
		kind = "server_error"
	}
	b := []byte(`{"error":{"message":`)
	b = strconv.AppendQuote(b, "streamgauge proxy: "+f.message)
	b = append(b, `,"type":"`+kind+`","param":null,"code":"`+f.reason+`"}}`...)
	return append(b, '\n')
}

// reply answers with the fault. When the request's body was not read to its
// end the connection cannot be used again, and closeConn must be true.
func (f fault) reply(ctx *fasthttp.RequestCtx, closeConn bool) {
	body := f.body()
	b := append([]byte("HTTP/1.1 "), strconv.Itoa(f.status)...)
	b = append(append(append(b, ' '), fasthttp.StatusMessage(f.status)...), "\r\nContent-Type: application/json\r\n"...)
	b = append(append(append(b, errorHeader...), ": "...), f.reason...)
	if f.status == fasthttp.StatusServiceUnavailable {
		b = append(b, "\r\nRetry-After: 1"...)
	}
	b = append(b, "\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n\r\n"...)
	// Not through Response.Reset: it brings the default Date back.
	if err := parseHeader(&ctx.Response.Header, b); err != nil {
		panic(err) // the header is ours
	}
	ctx.Response.SetBodyRaw(body)
	if closeConn {
		ctx.Response.SetConnectionClose()
	}
}
