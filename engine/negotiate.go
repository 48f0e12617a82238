package engine

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/valyala/fastjson"
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
	return c.streamFault(a)
}

// streamFault looks for what may hide behind a 200: one JSON body instead of a
// stream, an error event, nothing at all.
func (c *call) streamFault(a *answer) error {
	body := bytes.TrimLeft(a.body, " \t\r\n\xef\xbb\xbf")
	if len(body) == 0 {
		return &Error{Kind: NoStream, Status: a.status, Message: a.address + " answered 200 with an empty body"}
	}
	if body[0] == '{' {
		v, err := fastjson.ParseBytes(body)
		if err == nil && isError(v) {
			return c.inBand(a, body, v)
		}
		return &Error{Kind: NoStream, Status: a.status, Message: a.address + ` answered with one body although "stream":true was asked for: there is nothing to time`}
	}
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:"))
		if !ok {
			continue
		}
		if v, err := fastjson.ParseBytes(data); err == nil && isError(v) {
			return c.inBand(a, bytes.TrimSpace(data), v)
		}
	}
	return nil
}

func isError(v *fastjson.Value) bool {
	e := v.Get("error")
	return e != nil && e.Type() != fastjson.TypeNull
}

// inBand is the fault of an error object inside a 200. TGI validates that late,
// and says the status in the object.
func (c *call) inBand(a *answer, object []byte, v *fastjson.Value) error {
	inner := *a
	inner.body = object
	inner.status = v.GetInt("error", "http_status_code")
	if inner.status == 0 {
		inner.status = v.GetInt("error", "code")
	}
	if inner.status < 400 || inner.status > 599 {
		inner.status = http.StatusInternalServerError
	}
	if f := c.fault(&inner); f != nil {
		f.Status = a.status
		return f
	}
	return &Error{Kind: BadAnswer, Status: a.status, Message: fmt.Sprintf("%s sent an error object", a.address)}
}
