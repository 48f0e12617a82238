package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/streamgauge/streamgauge/internal/yard"
	"github.com/streamgauge/streamgauge/stream"
)

// command is a program behind the argv that holds it to its cores.
func command(pin []string, program string, args ...string) *exec.Cmd {
	argv := append(append(slices.Clone(pin), program), args...)
	return exec.Command(argv[0], argv[1:]...)
}

// startEmitter runs the emitter behind the argv of pin, with further arguments.
func startEmitter(ctx context.Context, dir, source string, pin []string, args ...string) (*yard.Emitter, error) {
	program := filepath.Join(dir, "emitter")
	if err := yard.Build(ctx, source, ".", program); err != nil {
		return nil, err
	}
	return yard.StartEmitter(ctx, func(args ...string) *exec.Cmd { return command(pin, program, args...) }, args...)
}

// proxyServer is our proxy in front of the emitter.
type proxyServer struct {
	*yard.Program
	addr   string
	admin  string
	cursor string
}

func startProxy(ctx context.Context, dir, upstream string, pin []string, user bool) (*proxyServer, error) {
	program := filepath.Join(dir, "proxy")
	if err := yard.Build(ctx, ".", "github.com/streamgauge/streamgauge/cmd/proxy", program); err != nil {
		return nil, err
	}
	addr, err := yard.FreeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := yard.FreeAddr()
	if err != nil {
		return nil, err
	}
	stamps := "kernel"
	if user {
		stamps = "user"
	}
	s, err := yard.Start(ctx, command(pin, program, "--log-level", "warn",
		"--upstream", "http://"+upstream, "--listen", addr, "--admin", admin, "--stamps", stamps), yard.Answers("http://"+admin+"/healthz"))
	if err != nil {
		return nil, err
	}
	return &proxyServer{Program: s, addr: addr, admin: admin}, nil
}

// instants returns those of n streams, from the records since the last call.
func (p *proxyServer) instants(ctx context.Context, n int) (map[string][]instant, error) {
	all := make(map[string][]instant)
	err := p.gather(ctx, n, func(r *stream.Record) {
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
// client had left before.
func (p *proxyServer) await(ctx context.Context, n int, left map[string]int64) error {
	return p.gather(ctx, n, func(r *stream.Record) { left[r.ID] = r.SentRealNS.V })
}

// gather visits the records since the last call until those of n streams have come:
// the proxy makes them when it has nothing else to do.
func (p *proxyServer) gather(ctx context.Context, n int, visit func(*stream.Record)) error {
	seen := map[string]bool{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for patience := time.Now().Add(5 * time.Second); ; {
		err := p.records(ctx, func(r *stream.Record) {
			seen[r.ID] = true
			visit(r)
		})
		if err != nil {
			return err
		}
		if len(seen) >= n {
			return nil
		}
		if time.Now().After(patience) {
			return fmt.Errorf("the proxy has records of %d streams, loadgen of %d", len(seen), n)
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

// eachLine calls f for each line of r.
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
