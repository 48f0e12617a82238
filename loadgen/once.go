package loadgen

import (
	"context"
	"fmt"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/wire"
)

// Once sends one prompt as it stands ("": the ask) and measures the reply. text,
// if not nil, is given every piece of it as it comes; the bytes are valid during
// the call. The record tells how the stream ended, also badly; the error is only
// for a request that could not be made: no such server, no such model.
func Once(ctx context.Context, cfg Config, deps Deps, prompt string, text func(channel wire.Channel, choice int, text []byte)) (*stream.Record, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r, err := newRunner(cfg.withDefaults(), deps)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if deps.Info != nil {
		r.info = *deps.Info
	} else if r.info, err = engine.Probe(ctx, deps.Target, cfg.Model); err != nil {
		return nil, err
	}
	if prompt == "" {
		prompt = r.cfg.Ask
	}
	r.switches, err = engine.Negotiate(ctx, deps.Target, r.info, engine.Defaults(r.info.Kind, r.cfg.ForceLength), r.bodyInput("Hi", 1, "", false))
	if err != nil {
		return nil, err
	}
	r.start = stamp.Now()
	id := fmt.Sprintf("%s-once-%x", r.runID, r.start)
	l := r.newLane(&lags{})
	if l.body, err = r.switches.Body(r.bodyInput(prompt, r.cfg.MaxTokens, id, false)); err != nil {
		return nil, err
	}
	out := l.run(ctx, shot{id: id, ttft: r.cfg.ttftTimeout(len(prompt) / 4), do: r.client.Do, text: text})
	out.rec.ID, out.rec.Phase, out.rec.Concurrency = id, stream.Once, 1
	if out.rec.End == stream.Cancelled && r.info.CanAbort {
		r.abort(context.WithoutCancel(ctx), id)
	}
	return out.rec, nil
}
