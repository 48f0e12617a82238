//go:build !linux

package enginetest

import "syscall"

// ownGroup puts an engine into a process group of its own, for Stop. Where there
// is no Pdeathsig, an engine outlives a test binary that is killed.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
