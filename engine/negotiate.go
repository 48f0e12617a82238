package engine

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/streamgauge/streamgauge/wire"
)

// Negotiate finds the switches a server accepts, by one-token requests. A 400 or
// 422 gives up fields in the order of the ladder until a request is accepted;
// then those given up on the way to the guilty one are tried again, one at a
// time, so that Dropped names what was really refused.
//
// A server that takes everything costs one request. An error means that no
// request of this kind is accepted (the first refusal is told), or that the
// answer is no stream.
func Negotiate(ctx context.Context, t *Target, info Info, s Switches, in BodyInput) (Switches, error) {
	c := t.open()
	defer c.close()
	in.MaxTokens, in.NoStream = 1, false
	if in.Model == "" {
		in.Model = info.Model
	}
	if in.Prompt == "" {
		in.Prompt = "Hi"
	}
	first := c.try(ctx, s, in)
	if first == nil || !Is(first, Refused) {
		return s, first
	}
	var given []field
	for _, f := range ladder {
		if !f.on(&s) || f.name == maxTokensKey && in.Endpoint == Completions {
			continue
		}
		s = s.drop(f)
		given = append(given, f)
		switch err := c.try(ctx, s, in); {
		case err == nil:
			return c.restore(ctx, s, in, given[:len(given)-1])
		case !Is(err, Refused):
			return s, err
		}
	}
	return s, first
}

// restore takes back what was given up before the last field, whose loss is what
// made the server accept.
func (c *call) restore(ctx context.Context, s Switches, in BodyInput, given []field) (Switches, error) {
	for i := len(given) - 1; i >= 0; i-- {
		more, ok := s.restore(given[i])
		if !ok {
			continue
		}
		switch err := c.try(ctx, more, in); {
		case err == nil:
			s = more
		case !Is(err, Refused):
			return s, err
		}
	}
	return s, nil
}

// try sends one request and reports whether the server streams an answer to it.
func (c *call) try(ctx context.Context, s Switches, in BodyInput) error {
	body, err := s.Body(in)
	if err != nil {
		return err
	}
	a, err := c.post(ctx, EndpointPath(in.Endpoint), body)
	if err != nil {
		return err
	}
	if f := c.fault(a); f != nil {
		return f
	}
	return c.streamFault(in.Endpoint, a)
}

// streamFault looks for what may hide behind a 200: an error event, one JSON
// body instead of a stream, nothing at all.
func (c *call) streamFault(endpoint string, a *answer) error {
	d := wire.NewDecoder(wire.ForPath([]byte(EndpointPath(endpoint))), maxAnswer)
	d.Push(a.body)
	events := 0
	for ev := d.Next(); ev != nil; ev = d.Next() {
		if ev.Kind == wire.Failure {
			return c.inBand(a, ev.Error)
		}
		events++
	}
	if ev := d.Close(); ev != nil && ev.Kind == wire.Failure {
		return c.inBand(a, ev.Error)
	}
	fault := &Error{Kind: NoStream, Status: a.status}
	switch body := bytes.TrimSpace(a.body); {
	case len(body) > 0 && body[0] == '{':
		fault.Message = a.address + ` answered with one body although "stream":true was asked for: there is nothing to time`
	case events == 0:
		fault.Message = a.address + " answered 200 without a single event"
	default:
		return nil
	}
	return fault
}

// inBand is the fault of an error object inside a 200: its code, where it has
// one, is the status that should have been.
func (c *call) inBand(a *answer, said wire.Error) error {
	inner := *a
	inner.body = []byte(said.Message)
	inner.status, _ = strconv.Atoi(said.Code)
	if inner.status < 400 || inner.status > 599 {
		inner.status = http.StatusInternalServerError
	}
	f := c.fault(&inner)
	f.Status = a.status
	return f
}
