package matrix

import "fmt"

// KVRule says what share of the KV cache a cell is expected to need.
type KVRule string

const (
	KVDistinct KVRule = "distinct" // C·(L + max_tokens): what C different users would need
	KVShared   KVRule = "shared"   // L + C·(tail + max_tokens): one context, C tails
	KVOff      KVRule = "off"      // no rule
)

// FitInput is a cell and the limits of its server, in tokens. A limit of 0 is
// unknown and never skips a cell.
type FitInput struct {
	Context, Concurrency, MaxTokens int
	Tail                            int // of one stream, behind the shared context

	ModelLimit  int // longest prompt + output of one request
	SlotContext int // llama.cpp: n_ctx of one slot
	MaxRunning  int // requests the server runs at once
	KVTokens    int
	Rule        KVRule
}

// Fit is the verdict, with its arithmetic in Message.
type Fit struct {
	OK      bool
	Reason  string // model_limit, slot_context, max_running, kv_capacity
	Message string
}

// Fits applies the capacity rules of docs/measuring.md, "KV capacity".
func Fits(in FitInput) Fit {
	one := in.Context + in.MaxTokens
	switch {
	case in.ModelLimit > 0 && one > in.ModelLimit:
		return Fit{Reason: "model_limit", Message: fmt.Sprintf(
			"context %d + max_tokens %d = %d tokens is over the model limit of %d", in.Context, in.MaxTokens, one, in.ModelLimit)}
	case in.SlotContext > 0 && one > in.SlotContext:
		return Fit{Reason: "slot_context", Message: fmt.Sprintf(
			"context %d + max_tokens %d = %d tokens is over the %d of one slot", in.Context, in.MaxTokens, one, in.SlotContext)}
	case in.MaxRunning > 0 && in.Concurrency > in.MaxRunning:
		return Fit{Reason: "max_running", Message: fmt.Sprintf(
			"concurrency %d is over the %d requests that the server runs at once", in.Concurrency, in.MaxRunning)}
	case in.KVTokens <= 0:
		return Fit{OK: true, Message: "KV capacity unknown: admission decides"}
	}
	switch in.Rule {
	case KVOff:
		return Fit{OK: true, Message: "KV rule off"}
	case KVShared:
		need := in.Context + in.Concurrency*(in.Tail+in.MaxTokens)
		return kvFit(need, in.KVTokens, fmt.Sprintf("%d + %d·(%d + %d)", in.Context, in.Concurrency, in.Tail, in.MaxTokens))
	default:
		return kvFit(in.Concurrency*one, in.KVTokens, fmt.Sprintf("%d·(%d + %d)", in.Concurrency, in.Context, in.MaxTokens))
	}
}

func kvFit(need, have int, sum string) Fit {
	if need > have {
		return Fit{Reason: "kv_capacity", Message: fmt.Sprintf("%s = %d tokens is over the KV capacity of %d", sum, need, have)}
	}
	return Fit{OK: true, Message: fmt.Sprintf("%s = %d tokens fits the KV capacity of %d", sum, need, have)}
}

// MaxContext is the largest decode context a model takes: limit − max_tokens −
// 1024, rounded down to a multiple of 1024; 0 when nothing is left.
func MaxContext(limit, maxTokens int) int {
	return max((limit-maxTokens-1024)/1024*1024, 0)
}
