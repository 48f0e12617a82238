// Package metrics holds every metric of the proxy: names, help texts, buckets
// and label rules stand in one table (families), and docs/metrics.md is checked
// against it.
//
// The steps, in order:
//
//  1. New makes a Set with the fixed label values: routes and upstreams are
//     known at the start, models are those the engine serves (SetModels).
//  2. A handler resolves what its request needs once: Set.Model, Set.Upstream.
//     What they return holds the series themselves, so that the token path
//     does no lookup and no formatting.
//  3. The token path calls Observe and ObserveN on those series.
//  4. WritePrometheus writes the text format, one HELP and one TYPE line a
//     family.
//
// No label value comes from a request unless it is on a list: a model that the
// engine does not serve is "other", so is a path that is not a known route.
package metrics
