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
// end the connection cannot be used again, and close must be true.
func (f fault) reply(ctx *fasthttp.RequestCtx, closeConn bool) {
	ctx.Response.Reset()
	h := &ctx.Response.Header
	h.SetStatusCode(f.status)
	h.SetContentType("application/json")
	h.Set(errorHeader, f.reason)
	if f.status == fasthttp.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	ctx.Response.SetBodyRaw(f.body())
	if closeConn {
		ctx.Response.SetConnectionClose()
	}
}
