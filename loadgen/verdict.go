package loadgen

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
)

// verdict ends a cell before its time.
type verdict struct {
	status          matrix.Status
	reason, message string
	fatal           bool // no other cell can do better: the run ends
}

// err is the error that ends the run, nil if others may do better.
func (v *verdict) err() error {
	if v.fatal {
		return errors.New(v.message)
	}
	return nil
}

// why is what there is to say of a failed stream, the server's own words first.
func (o *outcome) why() string { return cmp.Or(o.said, string(o.rec.Error), string(o.rec.Reason)) }

// busy reports whether the server asks to come again later.
func (o *outcome) busy() bool {
	return o.status == http.StatusTooManyRequests || o.status == http.StatusServiceUnavailable
}

// refused is the verdict on an answer, or the lack of one, that another try will
// not change; nil for any other outcome.
func refused(out *outcome, at *engine.Target) *verdict {
	switch said := out.why(); {
	case out.overflow:
		return &verdict{matrix.OverCapacity, "model_limit", said, false}
	case out.status == http.StatusUnauthorized || out.status == http.StatusForbidden:
		return &verdict{matrix.Failed, "unauthorized", "the server refuses the key: " + said, true}
	case out.status == http.StatusNotFound:
		return &verdict{matrix.Failed, "not_found", "the server does not know the model or the path any more: " + said, true}
	case out.status/100 == 3:
		return &verdict{matrix.Failed, "redirect", said, true}
	case out.refused:
		return &verdict{matrix.Failed, "unreachable", fmt.Sprintf("the server at %s has stopped answering: %s", at, said), true}
	}
	return nil
}

// lengthVerdict says why no prompt of the asked length could be made.
func lengthVerdict(err error) *verdict {
	var e *engine.Error
	if !errors.As(err, &e) {
		return &verdict{matrix.Failed, "calibrate", err.Error(), false}
	}
	switch e.Kind {
	case engine.Overflow:
		return &verdict{matrix.OverCapacity, "model_limit", e.Message, false}
	case engine.Unreachable, engine.Unauthorized, engine.Redirect, engine.NotOpenAI:
		return &verdict{matrix.Failed, string(e.Kind), err.Error(), true}
	}
	return &verdict{matrix.Failed, "calibrate", err.Error(), false}
}
