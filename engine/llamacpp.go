package engine

import (
	"context"
	"fmt"

	"github.com/valyala/fastjson"
)

// autoSlots is the number of slots that llama-server takes when none is given;
// it then also unifies the KV cache (common/arg.cpp, n_parallel < 0).
const autoSlots = 4

// llamacpp collects what a llama.cpp server tells of itself.
func (p *probe) llamacpp(ctx context.Context) {
	props := p.look(ctx, "/props")
	if props == nil {
		// A router serves several models and wants to know whose.
		props = p.look(ctx, "/props?model="+queryEscape(p.info.Model))
	}
	if props != nil {
		p.version(string(props.GetStringBytes("build_info")), "/props build_info")
		slots, context := props.GetInt("total_slots"), props.GetInt("default_generation_settings", "n_ctx")
		if context > 0 {
			p.info.SlotContext = context
			p.number("slot_context", context, "/props default_generation_settings.n_ctx")
			p.maxLen(context, "/props n_ctx of a slot")
		}
		if slots > 0 {
			p.maxRunning(slots, "/props total_slots")
		}
		n, source := llamacppKV(slots, context)
		p.kv(n, source)
	}
	p.tokenizer(ctx, `{"content":"a"}`, "tokens")
}

// llamacppKV is the KV capacity of a llama.cpp server. Slots set by number have
// n_ctx each. With a unified cache all slots share one n_ctx, and the server
// does not say which of the two it is: automatic slots (autoSlots of them) are
// always unified, so that number counts once; --kv-tokens overrides.
func llamacppKV(slots, context int) (tokens int, source string) {
	switch {
	case context <= 0:
		return 0, ""
	case slots <= 0:
		return context, "/props n_ctx (number of slots unknown)"
	case slots == autoSlots:
		return context, fmt.Sprintf("/props n_ctx alone (%d slots may be automatic, and those share one unified cache)", slots)
	}
	return slots * context, fmt.Sprintf("/props total_slots %d × n_ctx %d (slots set by number)", slots, context)
}

// llamacppSlots samples /slots, which is on by default where /metrics is not.
// How many requests wait is not told there.
func llamacppSlots(ctx context.Context, c *call) (Sample, error) {
	a, err := c.get(ctx, "/slots")
	if err != nil {
		return Unknowns(), err
	}
	if f := c.fault(a); f != nil {
		return Unknowns(), f
	}
	v := a.json()
	if v == nil || v.Type() != fastjson.TypeArray {
		return Unknowns(), &Error{Kind: BadAnswer, Status: a.status, Message: a.address + " is not a list of slots"}
	}
	s := Unknowns()
	s.Running = 0
	for _, slot := range v.GetArray() {
		if slot.GetBool("is_processing") {
			s.Running++
		}
	}
	return s, nil
}
