package enginetest

import "syscall"

// ownGroup puts an engine into a process group of its own, for Stop, and has the
// kernel end it with this process: a test binary that times out runs no cleanup.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
