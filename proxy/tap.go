package proxy

import (
	"bytes"
	"errors"
	"io"
	"runtime"

	"github.com/valyala/fasthttp"

	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
)

// tap is a response's body on its way to the client. The server loop calls Read,
// writes and flushes what it got, and calls Read again: so the start of a Read
// is the moment at which the bytes of the one before have left, and the first
// at which they may be parsed.
type tap struct {
	x *exchange
	// header is the client's response header; trailers are added to it at the
	// end of the body. Nil where there is no place for them.
	header *fasthttp.ResponseHeader

	held  []byte        // the last read's bytes, not yet observed
	at    stamp.Instant // their stamp; 0 when there are none
	src   stamp.Source  // who took it
	err   error         // of the upstream's body, once it ended
	whole bool          // it ended as its framing says: err is io.EOF

	tag     bool         // the trailer about loops is announced
	retired bool         // the stream was cut; tail is what follows
	tail    bytes.Reader // the end that is ours
	spare   []byte       // read behind the event at whose end the cut may be
}

// Read returns the upstream's bytes as soon as they are in.
func (t *tap) Read(p []byte) (int, error) {
	t.settle()
	n, err := t.fetch(p)
	if n > 0 && t.x.obs != nil {
		// A copy, since the buffer may be another stream's by the time of the
		// close.
		t.held = append(t.held[:0], p[:n]...)
	}
	return n, err
}

// fetch reads the upstream.
func (t *tap) fetch(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	if t.x.obs != nil && t.x.obs.cut != nil {
		return t.cutRead(p)
	}
	n, err := t.x.resp.Read(p)
	return t.took(n, err)
}

// took notes what a read of the upstream gave.
func (t *tap) took(n int, err error) (int, error) {
	if n > 0 {
		t.at, t.src = t.x.resp.At()
	}
	if err != nil {
		t.err = err
		if errors.Is(err, io.EOF) {
			t.whole = true
			if t.header != nil {
				t.x.copyTrailers(t.header)
			}
			if t.tag {
				t.tagEnd()
			}
		}
	}
	return n, err
}

// settle observes what has been written.
func (t *tap) settle() {
	if t.at == 0 {
		return
	}
	t.x.p.metrics.AddedDelay.Update(stamp.Now().Sub(t.at).Seconds())
	if t.x.obs != nil {
		if t.header != nil {
			// Engines send in decode steps: the tokens of other streams are
			// ready to be forwarded now, and they come before our parsing.
			runtime.Gosched()
		}
		t.x.obs.observe(t.held, t.at, t.src)
	}
	t.at = 0
}

// unwritten observes bytes that the client did not take; the engine made them.
func (t *tap) unwritten() {
	if t.at != 0 && t.x.obs != nil {
		t.x.obs.observe(t.held, t.at, t.src)
	}
	t.at = 0
}

// CloseWithError is called once by the server, in every ending. There is no
// Close: fasthttp calls both. The error of the writing is of no interest: when
// there is one, t.err is nil and the client is gone.
func (t *tap) CloseWithError(error) error {
	t.unwritten()
	if t.retired {
		t.x.end(stream.Cause{Kind: stream.Retired})
	} else if t.whole {
		t.x.end(stream.Cause{Kind: stream.EOF})
	} else {
		t.x.end(t.x.cause(t.err))
	}
	return nil
}
