package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/stream"
)

// server is a child process that serves HTTP.
type server struct {
	addr string
	cmd  *exec.Cmd
	said bytes.Buffer // its stderr
	done chan struct{}
}

// start runs a command that is to answer GET path on addr.
func start(ctx context.Context, addr, path string, cmd *exec.Cmd) (*server, error) {
	s := &server{addr: addr, cmd: cmd, done: make(chan struct{})}
	program := filepath.Base(cmd.Path)
	s.cmd.Stderr = &s.said
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(10 * time.Second)
	for {
		if resp, err := http.Get("http://" + addr + path); err == nil {
			resp.Body.Close()
			return s, nil
		}
		select {
		case <-tick.C:
			continue
		case <-s.done:
			return nil, fmt.Errorf("%s ended at once: %s", program, s.said.Bytes())
		case <-ctx.Done():
		case <-patience:
		}
		s.stop()
		return nil, fmt.Errorf("%s does not answer on %s: %s", program, addr, s.said.Bytes())
	}
}

// stop ends the process and waits for it.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(5 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}

// build compiles the package in dir (of the module there) to program.
func build(ctx context.Context, dir, pkg, program string) error {
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", dir, "-o", program, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("go build -C %s %s: %w\n%s", dir, pkg, err, out)
	}
	return nil
}

// command is a program behind the argv that holds it to its cores.
func command(pin []string, program string, args ...string) *exec.Cmd {
	argv := append(append(slices.Clone(pin), program), args...)
	return exec.Command(argv[0], argv[1:]...)
}

// freeAddr returns a loopback address that was free a moment ago.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// startEmitter runs the emitter behind the argv of pin, with further arguments.
func startEmitter(ctx context.Context, dir, source string, pin []string, args ...string) (*server, error) {
	program := filepath.Join(dir, "emitter")
	if err := build(ctx, source, ".", program); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	cmd := command(pin, program, append([]string{"-addr", addr}, args...)...)
	// The emitter formats an event after it has read the clock for it. With 128
	// streams its collector runs three times a second, and in each cycle dozens
	// of its goroutines wait, there, for half a millisecond and more: a delay in
	// front of the socket that no reader of it can know of.
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=1GiB")
	return start(ctx, addr, "/health", cmd)
}

// sent is the emitter's log of one stream: CLOCK_REALTIME before each event.
type sent struct {
	ID     string  `json:"id"`
	Emits  []int64 `json:"emit_ns"`
	Tokens int     `json:"tokens_per_chunk"` // of each
}

// truth takes the emitter's log and empties it.
func (s *server) truth(ctx context.Context) (map[string]sent, error) {
	logs := make(map[string]sent)
	err := lines(ctx, http.MethodDelete, "http://"+s.addr+"/truth", func(b []byte) error {
		var t sent
		err := json.Unmarshal(b, &t)
		logs[t.ID] = t
		return err
	})
	return logs, err
}

// proxyServer is our proxy in front of the emitter.
type proxyServer struct {
	*server
	admin  string
	cursor string
}

func startProxy(ctx context.Context, dir, upstream string, pin []string, user bool) (*proxyServer, error) {
	program := filepath.Join(dir, "proxy")
	if err := build(ctx, ".", "github.com/streamgauge/streamgauge/cmd/proxy", program); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	stamps := "kernel"
	if user {
		stamps = "user"
	}
	s, err := start(ctx, admin, "/healthz", command(pin, program, "--log-level", "warn",
		"--upstream", "http://"+upstream, "--listen", addr, "--admin", admin, "--stamps", stamps))
	if err != nil {
		return nil, err
	}
	s.addr = addr
	return &proxyServer{server: s, admin: admin}, nil
}

// instants returns those in the records since the last call.
func (p *proxyServer) instants(ctx context.Context) (map[string][]instant, error) {
	all := make(map[string][]instant)
	err := p.records(ctx, func(r *stream.Record) {
		if !r.SentRealNS.OK {
			return // it was never sent on: the stream is missed where it is looked for
		}
		for _, e := range r.EventLog {
			all[r.ID] = append(all[r.ID], instant{ns: r.SentRealNS.V + e[0], coalesced: e[2] != 0, kernel: r.Stamps == "kernel"})
		}
	})
	return all, err
}

// records visits the records since the last call.
func (p *proxyServer) records(ctx context.Context, visit func(*stream.Record)) error {
	url := "http://" + p.admin + "/records?events=1&since=" + p.cursor
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	p.cursor = resp.Header.Get("X-Streamgauge-Cursor")
	return eachLine(resp.Body, func(b []byte) error {
		var r stream.Record
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		visit(&r)
		return nil
	})
}

// await notes when the proxy sent each of n streams on, by their ids, 0 when its
// client had left before: the record of one that has just left may be on its way.
func (p *proxyServer) await(ctx context.Context, n int, left map[string]int64) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for patience := time.Now().Add(5 * time.Second); ; {
		if err := p.records(ctx, func(r *stream.Record) { left[r.ID] = r.SentRealNS.V }); err != nil {
			return err
		}
		if len(left) >= n {
			return nil
		}
		if time.Now().After(patience) {
			return fmt.Errorf("the proxy has records of %d streams, loadgen of %d", len(left), n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish runs a program to its end; what it said is in the error.
func finish(ctx context.Context, cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said.Bytes())
	}
	return nil
}

// lines calls f for each line of a response.
func lines(ctx context.Context, method, url string, f func([]byte) error) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return eachLine(resp.Body, f)
}

func eachLine(r io.Reader, f func([]byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		if err := f(s.Bytes()); err != nil {
			return err
		}
	}
	return s.Err()
}
