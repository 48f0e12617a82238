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

// freeAddr returns a loopback address that was free a moment ago.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

func startEmitter(ctx context.Context, dir, source string) (*server, error) {
	program := filepath.Join(dir, "emitter")
	if err := build(ctx, source, ".", program); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-addr", addr)
	// The emitter formats an event after it has read the clock for it. With 128
	// streams its collector runs three times a second, and in each cycle dozens
	// of its goroutines wait, there, for half a millisecond and more: a delay in
	// front of the socket that no reader of it can know of.
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=1GiB")
	return start(ctx, addr, "/health", cmd)
}

// sent is the emitter's log of one stream: CLOCK_REALTIME before each event.
type sent struct {
	ID    string  `json:"id"`
	Emits []int64 `json:"emit_ns"`
}

// truth takes the emitter's log and empties it.
func (s *server) truth(ctx context.Context) (map[string][]int64, error) {
	logs := make(map[string][]int64)
	err := lines(ctx, http.MethodDelete, "http://"+s.addr+"/truth", func(b []byte) error {
		var t sent
		err := json.Unmarshal(b, &t)
		logs[t.ID] = t.Emits
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

func startProxy(ctx context.Context, dir, upstream string, user bool) (*proxyServer, error) {
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
	s, err := start(ctx, admin, "/healthz", exec.Command(program, "--log-level", "warn",
		"--upstream", "http://"+upstream, "--listen", addr, "--admin", admin, "--stamps", stamps))
	if err != nil {
		return nil, err
	}
	s.addr = addr
	return &proxyServer{server: s, admin: admin}, nil
}

// records returns the instants in the records since the last call.
func (p *proxyServer) records(ctx context.Context) (map[string][]instant, error) {
	all := make(map[string][]instant)
	url := "http://" + p.admin + "/records?events=1&since=" + p.cursor
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	p.cursor = resp.Header.Get("X-Streamgauge-Cursor")
	err = eachLine(resp.Body, func(b []byte) error {
		var r stream.Record
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		if !r.SentRealNS.OK {
			return fmt.Errorf("record %s has no sent_real_ns", r.ID)
		}
		for _, e := range r.EventLog {
			all[r.ID] = append(all[r.ID], instant{ns: r.SentRealNS.V + e[0], coalesced: e[2] != 0, kernel: r.Stamps == "kernel"})
		}
		return nil
	})
	return all, err
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
