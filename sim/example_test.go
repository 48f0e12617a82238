package sim_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/sim"
)

// A simulated engine on a loopback port: one request, and what the engine's
// own log says of it.
func ExampleServer() {
	profile, err := sim.Lookup("plain")
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := sim.New(profile, sim.Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go srv.Serve(ln)
	defer srv.Shutdown(context.Background())

	body := `{"model":"plain","messages":[{"role":"user","content":"Say something."}],"stream":true,"max_tokens":4}`
	resp, err := http.Post("http://"+ln.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)

	r := srv.Truth().Requests()[0]
	fmt.Println(r.Prompt, "prompt tokens,", r.Tokens, "tokens, end:", r.End)
	for _, e := range r.Emits {
		fmt.Println("due at", e.Due-r.Arrived)
	}
	// Output:
	// 14 prompt tokens, 4 tokens, end: length
	// due at 50ms
	// due at 60ms
	// due at 70ms
	// due at 80ms
}

// The notation of the test cases, as bytes.
func ExampleParseWrites() {
	writes, err := sim.ParseWrites(`C("a")@500 | D @541`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range writes {
		fmt.Printf("%v %q\n", w.At, w.Bytes)
	}
	// Output:
	// 500ms "data: {\"id\":\"r1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
	// 541ms "data: [DONE]\n\n"
}

// A scripted upstream that dies in the middle of a reply.
func ExampleServeScript() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := sim.ServeScript(ln, sim.Always(sim.Script{
		Writes: sim.MustWrites(`ROLE@1 | C("a")@2`),
		End:    sim.Drop,
	}))
	defer srv.Close()
	resp, err := http.Get("http://" + srv.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	fmt.Println(err)
	// Output: unexpected EOF
}

func post(t *testing.T, target *engine.Target, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+target.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, b)
	}
}
