package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
	"github.com/streamgauge/streamgauge/wire"
)

// instant is the arrival of one generated event, in CLOCK_REALTIME nanoseconds.
type instant struct {
	ns        int64
	coalesced bool
	kernel    bool // who took it
}

// apart is the time between the starts of two streams: each is to be under way
// before the next one asks for its connection.
const apart = 4 * time.Millisecond

// drive reads the load's streams to their ends and returns the instants of each by its
// request id. The emitter starts a stream's clock when it has read the request,
// so a stream's ttft is chosen such that its tokens fall on the common grid (in
// lock-step) or on its own share of it.
func drive(ctx context.Context, s settings, addr string, l load, user bool) (map[string][]instant, error) {
	c := &upstream.Client{Addr: addr, Dialer: stamp.Dialer{User: user, Timeout: 10 * time.Second}}
	defer c.CloseIdle()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all = make(map[string][]instant, l.streams)
	)
	first := time.Now().Add(time.Duration(l.streams)*apart + 200*time.Millisecond)
	tick := time.NewTicker(apart)
	defer tick.Stop()
	for i := range l.streams {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		at := first
		if !l.lockstep {
			at = at.Add(l.itl * time.Duration(i) / time.Duration(l.streams))
		}
		// Unique over runs too: the proxy's ring holds all of them.
		id := strconv.FormatInt(at.UnixNano(), 36) + "-" + strconv.Itoa(i)
		wg.Go(func() {
			log, err := read(ctx, c, id, time.Until(at), l.itl, s.tokens)
			if err != nil {
				cancel(fmt.Errorf("stream %s: %w", id, err))
			}
			mu.Lock()
			all[id] = log
			mu.Unlock()
		})
	}
	wg.Wait()
	return all, context.Cause(ctx)
}

// read is one stream, by the steps of a slot of loadgen.
func read(ctx context.Context, c *upstream.Client, id string, ttft, itl time.Duration, tokens int) ([]instant, error) {
	body := fmt.Sprintf(`{"model":"steady:ttft=%v,itl=%v,n=%d","messages":[{"role":"user","content":"go"}],"max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`,
		ttft, itl, tokens, tokens)
	resp, err := c.Do(ctx, &upstream.Request{
		Method: "POST", Target: []byte("/v1/chat/completions"), Body: []byte(body),
		Header: []upstream.Field{
			{Name: []byte("Content-Type"), Value: []byte("application/json")},
			{Name: []byte("X-Request-Id"), Value: []byte(id)},
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Close() }()
	if resp.Status != 200 {
		return nil, fmt.Errorf("status %d", resp.Status)
	}
	m := stream.NewMeter(stream.Options{Dialect: wire.Chat})
	m.Sent(resp.Sent)
	m.Headers(resp.Status, resp.HeadersAt)
	var by []bool // of each event: kernel
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Read(buf)
		if n > 0 {
			at, src := resp.At()
			m.Stamps(src)
			m.Observe(buf[:n], at)
			for len(by) < len(m.Log()) {
				by = append(by, src == stamp.Kernel)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	log := m.Log()
	out := make([]instant, len(log))
	for i, e := range log {
		out[i] = instant{ns: e.At.Realtime(), coalesced: e.Flags&stream.Coalesced != 0, kernel: by[i]}
	}
	return out, nil
}
