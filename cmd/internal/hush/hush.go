// Package hush keeps Bubble Tea from talking to the terminal before main does.
//
// Its init asks the terminal on stdout for its background colour, whatever the
// program is started for, and waits up to five seconds for an answer: `loadgen
// version` would take as long on a terminal that has none (script, docker -t),
// and leave the question in what is recorded. A terminal named dumb is not asked,
// so this one is called that while packages are initialised.
//
// The order is certain. Packages are initialised sorted by import path as soon as
// all they import is; this one imports nothing but syscall, so it is ready before
// os, and os before every package that could ask. Package board, which imports
// Bubble Tea and so comes behind it, calls Over.
package hush

import "syscall"

var name, named = syscall.Getenv("TERM")

func init() {
	if named {
		_ = syscall.Setenv("TERM", "dumb") // at worst the terminal is asked
	}
}

// Over gives the terminal its name back.
func Over() {
	if named {
		_ = syscall.Setenv("TERM", name) // at worst it has no live screen
	}
}
