package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Action is what is done with a stream that repeats itself.
type Action string

// The actions.
const (
	Observe Action = "observe" // it is counted and recorded
	Tag     Action = "tag"     // a trailer says so; the body is untouched
	Cut     Action = "cut"     // it is ended in its dialect, the engine's request aborted
)

// observedRoutes are the routes whose streams are understood; openaiRoutes those of
// them that can be ended in their dialect, and asked for usage.
var (
	observedRoutes = []string{"chat", "completions", "messages", "responses", "ollama_chat", "ollama_generate"}
	openaiRoutes   = []string{"chat", "completions"}
)

// Policy is what to do with loops on a route and of a model.
type Policy struct {
	Action Action
	Route  string // one that is observed; "" is all of them
	// Model is the name that the request gives; with a * at its end, the
	// start of it. "" is any, and requests whose body is not held.
	Model string
}

// ParsePolicy reads ACTION, or ACTION:KEY=VALUE,…: "cut:model=foo,route=chat".
func ParsePolicy(s string) (Policy, error) {
	action, rest, has := strings.Cut(strings.TrimSpace(s), ":")
	p := Policy{Action: Action(action)}
	bad := func(why string) (Policy, error) { return Policy{}, fmt.Errorf("policy %q: %s", s, why) }
	if !slices.Contains([]Action{Observe, Tag, Cut}, p.Action) {
		return bad("it must begin with observe, tag or cut")
	}
	if !has {
		return p, nil
	}
	for pair := range strings.SplitSeq(rest, ",") {
		key, value, ok := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		var field *string
		switch key {
		case "route":
			field = &p.Route
		case "model":
			field = &p.Model
		default:
			return bad(fmt.Sprintf("%q is neither route=… nor model=…", pair))
		}
		switch {
		case !ok || value == "":
			return bad(key + " has no value")
		case *field != "":
			return bad(key + " stands twice")
		}
		*field = value
	}
	if p.Route != "" && !slices.Contains(observedRoutes, p.Route) {
		return bad(fmt.Sprintf("the route must be one of %s", strings.Join(observedRoutes, ", ")))
	}
	if p.Action == Cut && p.Route != "" && !slices.Contains(openaiRoutes, p.Route) {
		return bad(fmt.Sprintf("only streams of %s can be cut; others can be tagged", strings.Join(openaiRoutes, " and ")))
	}
	if i := strings.IndexByte(p.Model, '*'); i >= 0 && i != len(p.Model)-1 {
		return bad("a * can only stand at the end of a model's name")
	}
	return p, nil
}

// String is the form that ParsePolicy reads.
func (p Policy) String() string {
	var by []string
	if p.Model != "" {
		by = append(by, "model="+p.Model)
	}
	if p.Route != "" {
		by = append(by, "route="+p.Route)
	}
	if by == nil {
		return string(p.Action)
	}
	return string(p.Action) + ":" + strings.Join(by, ",")
}

func (p *Policy) matches(route, model string) bool {
	if p.Route != "" && p.Route != route {
		return false
	}
	if start, open := strings.CutSuffix(p.Model, "*"); open {
		return strings.HasPrefix(model, start)
	}
	return p.Model == "" || p.Model == model
}

// rules are the settings that a running proxy can change.
type rules struct {
	policies []Policy
	usage    []string // routes whose requests are made to ask for usage
}

func (r *rules) validate(detects bool) error {
	var errs []error
	for _, p := range r.policies {
		if _, err := ParsePolicy(p.String()); err != nil {
			errs = append(errs, err)
		}
		if !detects && p.Action != Observe {
			errs = append(errs, fmt.Errorf("policy %q needs the detector, and that is off", p))
		}
	}
	for _, route := range r.usage {
		if !slices.Contains(openaiRoutes, route) {
			errs = append(errs, fmt.Errorf("usage cannot be asked for on route %q, only on %s", route, strings.Join(openaiRoutes, " and ")))
		}
	}
	return errors.Join(errs...)
}

// acts reports whether any policy does more than observe, so that a request's
// model matters.
func (r *rules) acts() bool {
	return slices.ContainsFunc(r.policies, func(p Policy) bool { return p.Action != Observe })
}

// action is that of the first policy that matches.
func (r *rules) action(route, model string) Action {
	for i := range r.policies {
		if r.policies[i].matches(route, model) {
			return r.policies[i].Action
		}
	}
	return Observe
}
