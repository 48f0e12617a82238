package e2e

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/streamgauge/streamgauge/enginetest"
	"github.com/streamgauge/streamgauge/stream"
)

// longReply keeps an engine busy for longer than a test of its leaving takes.
const longReply = 8192

// testGone kills clients in the middle of their streams and looks at the
// engine's own gauge of running requests.
func testGone(t *testing.T, s *enginetest.Server, f facts) {
	st := raise(t, s)
	for _, c := range []struct {
		name string
		kill func(*net.TCPConn) error
	}{
		{"reset", func(c *net.TCPConn) error {
			if err := c.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		}},
		{"close", func(c *net.TCPConn) error { return c.Close() }},
		{"half close", func(c *net.TCPConn) error { return c.CloseWrite() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			idle(t, s, f)
			id := "gone-" + strings.ReplaceAll(c.name, " ", "-")
			conn := st.open(t, id, longReply)
			if n := metric(t, s, f.gauge); n != 1 {
				t.Fatalf("%s is %v while one stream is open", f.gauge, n)
			}
			if err := c.kill(conn); err != nil {
				t.Fatal(err)
			}
			took := wait(t, time.Second, "the engine's slot free again", func() bool { return metric(t, s, f.gauge) == 0 })

			var rec *stream.Record
			wait(t, time.Second, "the proxy's record", func() bool {
				for _, r := range st.records(t) {
					if r.ID == id {
						rec = &r
					}
				}
				return rec != nil
			})
			st.relay.fold(t, st.told)
			if rec.End != stream.ClientGone {
				t.Errorf("the proxy has the stream as %s, want %s", rec.End, stream.ClientGone)
			}
			said := st.told[id]
			if said == nil || said.done || said.finish != "" {
				t.Fatalf("the engine ended the stream by itself: nothing was tested")
			}
			if want := said.count(min(rec.Events, len(said.events))); rec.Tokens != want || want == 0 {
				t.Errorf("the proxy counted %d tokens, the engine's count at event %d of %d is %d", rec.Tokens, rec.Events, len(said.events), want)
			}
			t.Logf("the slot was free after %v, at %d of %d tokens", took.Round(time.Millisecond), rec.Tokens, longReply)
		})
	}
}

// open starts a stream by hand and returns its connection once some tokens came.
func (st *stage) open(t *testing.T, id string, maxTokens int) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", st.data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"on and on"}],"max_tokens":%d,"stream":true,"stream_options":{"include_usage":true},%s}`,
		st.engine.Model, maxTokens, map[enginetest.Kind]string{
			enginetest.LlamaCPP: `"timings_per_token":true`,
			enginetest.VLLM:     `"return_token_ids":true`,
		}[st.engine.Engine.Kind])
	if _, err := fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: e2e\r\nX-Request-Id: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		id, len(body), body); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(c)
	for events := 0; events < 8; {
		if !lines.Scan() {
			t.Fatalf("the stream ended early: %v", lines.Err())
		}
		if strings.HasPrefix(lines.Text(), "data: ") {
			events++
		}
	}
	return c.(*net.TCPConn)
}
