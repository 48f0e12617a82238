package proxy

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// failing is a listener whose accepts end as listed; then it is closed.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) == 0 {
		return nil, net.ErrClosed
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	if err != nil {
		err = &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return nil, err
}

func TestPatientListener(t *testing.T) {
	full := make([]error, 12)
	for i := range full {
		full[i] = syscall.EMFILE
	}
	for _, tt := range []struct {
		name string
		errs []error
		want error
		took time.Duration
	}{
		{"a connection comes", []error{nil}, nil, 0},
		{"no descriptor for a moment", []error{syscall.EMFILE, syscall.ENFILE, nil}, nil, 15 * time.Millisecond},
		{"the client left in the queue", []error{syscall.ECONNABORTED, nil}, nil, 5 * time.Millisecond},
		{"no descriptor for long: a look each second", append(full, nil), nil, (5+10+20+40+80+160+320+640)*time.Millisecond + 4*time.Second},
		{"closed", nil, net.ErrClosed, 0},
		{"broken", []error{syscall.EINVAL}, syscall.EINVAL, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				_, err := patient{&failing{errs: tt.errs}, zerolog.Nop()}.Accept()
				if took := time.Since(begun); !errors.Is(err, tt.want) || took != tt.took {
					t.Errorf("got %v after %v, want %v after %v", err, took, tt.want, tt.took)
				}
			})
		})
	}
}
