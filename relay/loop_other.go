//go:build !linux || !(amd64 || arm64 || riscv64 || loong64)

package relay

import (
	"errors"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/upstream"
)

// Loop is Linux's.
type Loop struct{}

// socket is Linux's.
type socket struct{}

// New is errors.ErrUnsupported here.
func New(Limits, Front) (*Loop, error) { return nil, errors.ErrUnsupported }

// Close does nothing here.
func (*Loop) Close() {}

// Open is 0 here.
func (*Loop) Open() int { return 0 }

// Carry is never called here: there is no Loop.
func (*Loop) Carry(*Stream, []byte) {}

// Cancel is never called here: there is no Loop.
func (*Loop) Cancel(*Stream, error) {}

// Listen is errors.ErrUnsupported here.
func (*Loop) Listen(*stamp.RawListener) error { return errors.ErrUnsupported }

// Spare is false here.
func (*Loop) Spare(*upstream.Client) bool { return false }

// Dismiss does nothing here.
func (*Loop) Dismiss() {}

// Err is nil here.
func (*Loop) Err() error { return nil }
