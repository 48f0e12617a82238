//go:build !linux || !(amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"

	"github.com/streamgauge/streamgauge/stamp"
)

// Loop is Linux's.
type Loop struct{}

// New is errors.ErrUnsupported here.
func New(Limits) (*Loop, error) { return nil, errors.ErrUnsupported }

// Close does nothing here.
func (*Loop) Close() {}

// Open is 0 here.
func (*Loop) Open() int { return 0 }

// Carry is never called here: there is no Loop.
func (*Loop) Carry(*Stream, []byte) {}

// Cancel is never called here: there is no Loop.
func (*Loop) Cancel(*Stream, error) {}

// Await is never called here: there is no Loop.
func (*Loop) Await(*stamp.Raw, func(*stamp.Raw)) {}

// Dismiss does nothing here.
func (*Loop) Dismiss() {}

// Err is nil here.
func (*Loop) Err() error { return nil }
