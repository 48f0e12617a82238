//go:build !linux || !(amd64 || arm64 || riscv64 || loong64)

package stamp

import (
	"errors"
	"net"
)

// Raw is Linux's.
type Raw struct{}

// Detachable reports whether Detach can work: not here.
func (*Conn) Detachable() bool { return false }

// Detach is errors.ErrUnsupported here.
func (*Conn) Detach() (r *Raw, rest []byte, err error) { return nil, nil, errors.ErrUnsupported }

// Reserve is errors.ErrUnsupported here.
func (*Conn) Reserve() error { return errors.ErrUnsupported }

// Attach is errors.ErrUnsupported here.
func (*Raw) Attach() (*Conn, error) { return nil, errors.ErrUnsupported }

// Close is errors.ErrUnsupported here.
func (*Raw) Close() error { return errors.ErrUnsupported }

// Abort is errors.ErrUnsupported here.
func (*Raw) Abort() error { return errors.ErrUnsupported }

// Readable is false here.
func (*Raw) Readable() bool { return false }

// Peer is nil here.
func (*Raw) Peer() net.Addr { return nil }

// Stamp is 0 here.
func (*Raw) Stamp() (Instant, Source) { return 0, User }

// RawListener is Linux's.
type RawListener struct{}

// ListenRaw is errors.ErrUnsupported here.
func ListenRaw(net.Listener, bool) (*RawListener, error) { return nil, errors.ErrUnsupported }

// Another is errors.ErrUnsupported here.
func (*RawListener) Another() (*RawListener, error) { return nil, errors.ErrUnsupported }

// Close is errors.ErrUnsupported here.
func (*RawListener) Close() error { return errors.ErrUnsupported }
