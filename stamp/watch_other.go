//go:build !linux

package stamp

import "net"

// Watcher needs Linux; elsewhere it never tells.
type Watcher struct{}

// NewWatcher returns a Watcher that never tells.
func NewWatcher() (*Watcher, error) { return new(Watcher), nil }

// Watch does nothing here.
func (*Watcher) Watch(net.Conn, func()) (stop func()) { return func() {} }

// Watched is never told here.
type Watched struct{}

// Add watches nothing here.
func (*Watcher) Add(net.Conn) *Watched { return nil }

// Arm does nothing here.
func (*Watched) Arm(func()) {}

// Disarm does nothing here.
func (*Watched) Disarm() {}

// Remove does nothing here.
func (*Watched) Remove() {}

// Close does nothing here.
func (*Watcher) Close() {}
