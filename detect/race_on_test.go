//go:build race

package detect

// raceEnabled: everything takes ten times as long, and allocations differ.
const raceEnabled = true
