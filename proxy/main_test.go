package proxy

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if upstream := os.Getenv(roleVariable); upstream != "" {
		playProxy(upstream)
		return
	}
	goleak.VerifyTestMain(m,
		// fasthttp's worker pool ends by itself up to 10 s after Shutdown.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}
