package yard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
)

// Emitter is the running ground-truth emitter.
type Emitter struct {
	*Program
	Addr string
}

// Emitted is its log of one stream. Instants are CLOCK_REALTIME, in nanoseconds.
type Emitted struct {
	ID       string  `json:"id"`
	Read     int64   `json:"read_ns"` // the request was there
	Emits    []int64 `json:"emit_ns"` // before each event was made
	PerChunk int64   `json:"tokens_per_chunk"`
}

// StartEmitter starts the emitter by command, which gets its arguments: -addr, and
// args.
func StartEmitter(ctx context.Context, command func(args ...string) *exec.Cmd, args ...string) (*Emitter, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	cmd := command(append([]string{"-addr", addr}, args...)...)
	// The emitter formats an event after it has read the clock for it. With 128
	// streams its collector runs three times a second, and in each cycle dozens
	// of its goroutines wait, there, for half a millisecond and more: a delay in
	// front of the socket that no reader of it can know of.
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=1GiB")
	p, err := Start(ctx, cmd, Answers("http://"+addr+"/health"))
	if err != nil {
		return nil, err
	}
	return &Emitter{p, addr}, nil
}

// Log takes the log of the streams, by their ids, and empties it.
func (e *Emitter) Log(ctx context.Context) (map[string]Emitted, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://"+e.Addr+"/truth", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	all := map[string]Emitted{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var s Emitted
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("emitter's log: %w", err)
		}
		all[s.ID] = s
	}
	return all, lines.Err()
}
