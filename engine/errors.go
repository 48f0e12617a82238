package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// ErrorKind is the machine-readable cause of an Error.
type ErrorKind string

const (
	Unreachable  ErrorKind = "unreachable"  // no connection, or no answer
	BadTLS       ErrorKind = "tls"          // certificate, or plain HTTP where TLS was expected
	Unauthorized ErrorKind = "unauthorized" // 401, 403
	Redirect     ErrorKind = "redirect"     // 3xx; never followed, a measurement goes where it was sent
	NotOpenAI    ErrorKind = "not_openai"   // no list of models, an HTML page, or JSON of another kind
	NotFound     ErrorKind = "not_found"    // the server lacks this path, or it is switched off
	Loading      ErrorKind = "loading"      // 503 while the model loads
	NoModel      ErrorKind = "model"        // missing, or several and none chosen
	Refused      ErrorKind = "refused"      // 400, 422: the request itself
	Overflow     ErrorKind = "overflow"     // prompt and max_tokens exceed the model's context
	BadStatus    ErrorKind = "status"       // any other status
	NoStream     ErrorKind = "no_stream"    // one body although a stream was asked for
	NoCount      ErrorKind = "no_count"     // no way to count tokens
	BadAnswer    ErrorKind = "bad_answer"   // not the answer that path gives
)

// Error is one sentence about a server, without secrets.
type Error struct {
	Kind    ErrorKind
	Status  int // HTTP, 0: no answer
	Message string
	Err     error // cause, nil for an answer we understood
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether err is an *Error of that kind.
func Is(err error, kind ErrorKind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}

// notHTTP is how net/http begins its words for an answer that is none.
const notHTTP = "malformed HTTP response"

// transportError turns what net/http returned into a sentence.
func (c *call) transportError(ctx context.Context, address string, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(cause, context.Canceled) {
		return cause
	}
	return NoAnswer(c.red, address, err)
}

// NoAnswer is the sentence for a request to address that net/http returned err
// for. The *url.Error is taken off first: it repeats the address with its query.
func NoAnswer(red *Redactor, address string, err error) *Error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	where := red.String(bare(address))
	e := &Error{Kind: Unreachable, Err: err}
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		host        x509.HostnameError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		dns         *net.DNSError
		netErr      net.Error
	)
	switch {
	case errors.As(err, &host):
		e.Kind, e.Message = BadTLS, fmt.Sprintf("the certificate of %s is for another name: %v", where, host)
	case errors.As(err, &authority):
		e.Kind, e.Message = BadTLS, fmt.Sprintf("the certificate of %s is signed by an unknown authority: name it with --ca, or use --insecure", where)
	case errors.As(err, &certificate):
		e.Kind, e.Message = BadTLS, fmt.Sprintf("the certificate of %s is not valid: %v", where, certificate.Err)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		e.Kind, e.Message = BadTLS, fmt.Sprintf("%s does not speak TLS: try http://", where)
	case errors.As(err, &alert):
		e.Kind, e.Message = BadTLS, fmt.Sprintf("%s refused the TLS connection: %v", where, alert)
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Message = fmt.Sprintf("cannot reach %s: no such host", where)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Message = fmt.Sprintf("cannot reach %s: connection refused", where)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		e.Message = fmt.Sprintf("cannot reach %s: no answer in time", where)
	case strings.Contains(err.Error(), notHTTP+` "\x15\x03`): // a TLS alert, RFC 8446 section 5.1
		e.Kind, e.Message = BadTLS, fmt.Sprintf("%s speaks TLS: try https://", where)
	case strings.Contains(err.Error(), "malformed HTTP"):
		e.Message = fmt.Sprintf("%s does not speak HTTP: another kind of server is at this address", where)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		e.Message = fmt.Sprintf("%s closed the connection without a whole answer", where)
	default:
		e.Message = fmt.Sprintf("cannot reach %s: %s", where, red.String(err.Error()))
	}
	return e
}

// bare is an address without user info and query.
func bare(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the server"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
