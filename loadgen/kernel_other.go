//go:build !linux

package loadgen

// kernelRelease is not read here.
func kernelRelease() string { return "" }
