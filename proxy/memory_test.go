package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// roleVariable makes the test program a proxy in front of the upstream it names,
// until its stdin ends.
const roleVariable = "STREAMGAUGE_TEST_UPSTREAM"

func playProxy(upstream string) {
	p, err := New(Config{Upstreams: []string{upstream}, NoDetect: true, ModelsEvery: -1, Models: []string{"m"}, Drain: -1}, zerolog.Nop())
	if err != nil {
		panic(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	_ = p.Serve(ln)
}

// childProxy is a proxy in a process of its own.
type childProxy struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

func startChild(t *testing.T, upstream string) *childProxy {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+upstream)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &childProxy{t, strings.TrimSpace(line), cmd}
}

// pss is the process's proportional share of memory in bytes.
func (c *childProxy) pss() int64 {
	c.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", c.cmd.Process.Pid))
	if err != nil {
		c.t.Skip("SKIPPED: no smaps_rollup to read the memory from: ", err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "Pss:" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				c.t.Fatal(err)
			}
			return kb << 10
		}
	}
	c.t.Fatalf("no Pss in %s", b)
	return 0
}

// beats is an upstream whose streams all get an event at each beat.
type beats struct {
	ln    net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (b *beats) serve() {
	for {
		c, err := b.ln.Accept()
		if err != nil {
			return
		}
		go func() {
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				_, err = io.Copy(io.Discard, req.Body)
			}
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
			b.mu.Lock()
			b.conns = append(b.conns, c)
			b.mu.Unlock()
		}()
	}
}

func (b *beats) open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)
}

func (b *beats) beat(event []byte) {
	chunk := append(fmt.Appendf(nil, "%x\r\n", len(event)), event...)
	chunk = append(chunk, "\r\n"...)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		_, _ = c.Write(chunk)
	}
}

// TestMemoryPerStream holds streams open that get an event now and then, and
// prints what each costs the proxy without detectors. STREAMGAUGE_MEMORY=5000 is
// the larger run. The limit is a guard, some way above what is measured.
func TestMemoryPerStream(t *testing.T) {
	n, limit := 1000, int64(24<<10)
	if s := os.Getenv("STREAMGAUGE_MEMORY"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	if raceEnabled || testing.Short() {
		t.Skip("the race detector has its own memory")
	}
	up := &beats{ln: loopbackListener(t)}
	go up.serve()
	defer up.ln.Close()
	c := startChild(t, "http://"+up.ln.Addr().String())
	event := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n")

	clients := make([]net.Conn, n)
	defer func() {
		for _, c := range append(clients, up.conns...) {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	before := c.pss()
	for i := range clients {
		var err error
		if clients[i], err = net.Dial("tcp", c.addr); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(clients[i], chat("Authorization: Bearer x", "User-Agent: test", "Accept: */*", "Content-Type: application/json")); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 {
			eventually(t, "the streams are open", func() bool { return up.open() == i+1 })
		}
	}
	eventually(t, "all streams are open", func() bool { return up.open() == n })
	const events = 5
	bodies := make([]io.Reader, n)
	for i, conn := range clients {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		bodies[i] = res.Body
	}
	got := make([]byte, len(event))
	for range events {
		up.beat(event)
		for _, b := range bodies {
			if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, event) {
				t.Fatalf("got %.60q (%v), want the event", got, err)
			}
		}
	}
	per := (c.pss() - before) / int64(n)
	t.Logf("%d streams: %.1f KB each, %.1f MB in all, %.1f MB before", n, float64(per)/1024, float64(c.pss())/1e6, float64(before)/1e6)
	if per > limit {
		t.Errorf("%d bytes a stream, want at most %d", per, limit)
	}
}
