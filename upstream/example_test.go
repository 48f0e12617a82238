package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/streamgauge/streamgauge/upstream"
)

// A streamed response: every Read returns what one read of the socket brought,
// and At tells when that was.
func ExampleClient() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "data: hello\n\n")
	}))
	defer engine.Close()
	c := &upstream.Client{Addr: engine.Listener.Addr().String()}
	defer c.CloseIdle()

	resp, err := c.Do(context.Background(), &upstream.Request{
		Method: "POST",
		Target: []byte("/v1/completions"),
		Header: []upstream.Field{{Name: []byte("Content-Type"), Value: []byte("application/json")}},
		Body:   []byte(`{"stream":true}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Read(buf)
		if n > 0 {
			at, _ := resp.At()
			fmt.Printf("%q, after it was sent: %v\n", buf[:n], at > resp.Sent)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output: "data: hello\n\n", after it was sent: true
}
