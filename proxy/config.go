package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/streamgauge/streamgauge/detect"
)

// Config is what a Proxy does. A zero field means its default; a negative
// duration means no limit.
type Config struct {
	// Upstreams are the base URLs of the inference servers, at least one:
	// http or https, without a query or credentials. A "/v1" at the end is
	// dropped, another path is put before each request's path.
	Upstreams []string
	// TLS, if set, is spoken on the data port. HTTP/2 is not offered.
	TLS *tls.Config
	// UpstreamTLS is used for https upstreams. Nil: the system's roots.
	UpstreamTLS *tls.Config

	// MaxBody is the largest request body in bytes; past it the client gets
	// 413. Zero: 64 MiB.
	MaxBody int64
	// BufferBody is the largest request body that is read whole before it is
	// sent, so that it can be sent again and its model is known; larger ones
	// are streamed. Zero: 4 MiB.
	BufferBody int
	// MaxHeader is the largest header block in bytes, in both directions.
	// Zero: 64 KiB for requests. It is the size of each connection's read
	// buffer too.
	MaxHeader int

	// ConnectTimeout bounds dialling and the TLS handshake. Zero: 10 s.
	ConnectTimeout time.Duration
	// HandshakeTimeout bounds a client's TLS handshake. Zero or less: 10 s.
	HandshakeTimeout time.Duration
	// HeaderWait bounds the time from the request to the response's header.
	// Zero: no limit, since a prefill can take many minutes.
	HeaderWait time.Duration
	// BodyIdle bounds the silence between two reads of a response's body.
	// Zero: 30 min.
	BodyIdle time.Duration
	// ClientWrite bounds each write to a client. Zero: 60 s.
	ClientWrite time.Duration
	// ClientRead bounds each read of a request, from its first byte on.
	// Zero: 60 s.
	ClientRead time.Duration
	// ClientIdle bounds the silence between two requests of a connection.
	// Zero: 120 s.
	ClientIdle time.Duration
	// UpstreamIdle is how long an unused connection is kept. It must stay
	// below the server's own limit (uvicorn: 5 s). Zero: 2 s.
	UpstreamIdle time.Duration
	// MaxConns bounds the connections to one upstream; past it clients get
	// 503. Zero: 16384.
	MaxConns int
	// Drain is how long Shutdown lets open requests go on. Zero: 30 s.
	Drain time.Duration

	// KeepHalfClosed makes a client that closes only its sending side count as
	// present. By default it counts as gone, since it cannot be told from one
	// that left.
	KeepHalfClosed bool
	// UserStamps switches the kernel's receive stamps off.
	UserStamps bool

	// NoRelay gives each connection a goroutine. By default event loops serve plain
	// requests and carry streams, where both sides are plain TCP on Linux.
	NoRelay bool

	// HealthPath, if set, is asked by GET every HealthEvery (zero: 2 s) at an
	// upstream that is set aside, until it answers with a 2xx. Without it such
	// an upstream is tried again after 5 s. It must not be a path whose answer
	// costs tokens, as SGLang's /health does.
	HealthPath  string
	HealthEvery time.Duration

	// Models are names that may be label values besides those that the
	// upstreams list. The list is read from GET /v1/models every ModelsEvery;
	// zero: 60 s, negative: never.
	Models      []string
	ModelsEvery time.Duration
	// ModelsKey is the bearer token for that request, for engines that want
	// one. It is used for nothing else.
	ModelsKey string

	// Limits are the repetition detector's. NoDetect switches it off.
	Limits   detect.Limits
	NoDetect bool

	// Policies say what to do with streams that repeat themselves; the first
	// that matches a request holds, and without one it is Observe.
	Policies []Policy
	// InjectUsage are the routes, chat and completions, whose streaming
	// requests get stream_options.include_usage if they say nothing of it. It
	// is the one change that can be made to a request; the usage chunk that it
	// asks for reaches the client.
	InjectUsage []string

	// Records and RecordBytes bound the ring of records behind /records.
	// Zero: 16384 records, 64 MiB.
	Records     int
	RecordBytes int64
	// RecordFile, if set, takes each record as a line. At RecordFileSize bytes
	// (zero: 256 MiB) it is renamed to .1, .1 to .2, and so on;
	// RecordFileKeep (zero: 3) old ones are kept.
	RecordFile     string
	RecordFileSize int64
	RecordFileKeep int
	// StoreText lets records keep excerpts of what the model wrote, and error
	// messages of the engine, which may quote the prompt.
	StoreText bool

	// AccessLog, if set, takes a line of JSON for each request that is over, or
	// for the share AccessShare of them (zero: all); those that failed are all
	// logged. It never delays a request: lines it does not take are dropped.
	AccessLog   io.Writer
	AccessShare float64

	// AdminToken, if set, must be sent to the admin port as
	// "Authorization: Bearer …".
	AdminToken string
	// Data is the data port's address as /version shows it. Empty: the
	// listener's own.
	Data string
	// Version is the build's; it goes into /version and build_info.
	Version string

	// Dial, if set, opens connections to the upstreams; tests inject in-memory
	// ones.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// withDefaults returns the config with every zero replaced.
func (c Config) withDefaults() Config {
	def(&c.MaxBody, 64<<20)
	def(&c.BufferBody, 4<<20)
	def(&c.MaxHeader, 64<<10)
	def(&c.ConnectTimeout, 10*time.Second)
	if c.HandshakeTimeout <= 0 {
		c.HandshakeTimeout = 10 * time.Second
	}
	def(&c.BodyIdle, 30*time.Minute)
	def(&c.ClientWrite, time.Minute)
	def(&c.ClientRead, time.Minute)
	def(&c.ClientIdle, 2*time.Minute)
	def(&c.UpstreamIdle, 2*time.Second)
	def(&c.MaxConns, 16384)
	def(&c.Drain, 30*time.Second)
	def(&c.ModelsEvery, time.Minute)
	def(&c.HealthEvery, 2*time.Second)
	def(&c.Records, 16384)
	def(&c.RecordBytes, 64<<20)
	def(&c.RecordFileSize, 256<<20)
	def(&c.RecordFileKeep, 3)
	def(&c.AccessShare, 1)
	if c.Version == "" {
		c.Version = "unknown"
	}
	// Below, "no limit" is the zero of net.Conn's deadlines.
	for _, d := range []*time.Duration{&c.ConnectTimeout, &c.HeaderWait, &c.BodyIdle, &c.ClientWrite,
		&c.ClientRead, &c.ClientIdle, &c.Drain} {
		*d = max(*d, 0)
	}
	return c
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Validate names every mistake of the config at once.
func (c Config) Validate() error {
	var errs []error
	if len(c.Upstreams) == 0 {
		errs = append(errs, errors.New("no upstream given"))
	}
	for _, u := range c.Upstreams {
		if _, err := parseUpstream(u); err != nil {
			errs = append(errs, err)
		}
	}
	for _, n := range []struct {
		name string
		v    int64
	}{
		{"max body", c.MaxBody}, {"buffered body", int64(c.BufferBody)}, {"max header", int64(c.MaxHeader)},
		{"max conns", int64(c.MaxConns)}, {"records", int64(c.Records)}, {"record bytes", c.RecordBytes},
		{"record file size", c.RecordFileSize}, {"record files kept", int64(c.RecordFileKeep)},
	} {
		if n.v < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %d", n.name, n.v))
		}
	}
	errs = append(errs, (&rules{c.Policies, c.InjectUsage}).validate(!c.NoDetect))
	if c.HealthPath != "" && (c.HealthPath[0] != '/' || strings.ContainsFunc(c.HealthPath, func(r rune) bool { return r <= ' ' || r == 0x7f })) {
		errs = append(errs, fmt.Errorf("health path %q is not a path such as /health", c.HealthPath))
	}
	if c.HealthEvery < 0 {
		errs = append(errs, fmt.Errorf("health every %v is negative", c.HealthEvery))
	}
	if c.AccessShare < 0 || c.AccessShare > 1 {
		errs = append(errs, fmt.Errorf("access share %g is not between 0 and 1", c.AccessShare))
	}
	if strings.ContainsAny(c.AdminToken, " \t\r\n") {
		errs = append(errs, errors.New("the admin token holds white space"))
	}
	return errors.Join(errs...)
}

// base is a parsed upstream URL.
type base struct {
	name   string // host:port, the label
	addr   string // host:port to dial
	host   string // the Host header when a client sends none
	prefix string // path before each request's, no slash at its end
	tls    bool
}

func parseUpstream(raw string) (base, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error quotes the whole URL, credentials and all.
		return base{}, errors.New("an upstream URL cannot be parsed")
	}
	shown := u.Redacted()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return base{}, fmt.Errorf("upstream %q: the scheme must be http or https", shown)
	case u.Host == "" || u.Hostname() == "":
		return base{}, fmt.Errorf("upstream %q: no host", shown)
	case u.User != nil:
		return base{}, fmt.Errorf("upstream %q: credentials do not belong in the URL; clients send their own", shown)
	case u.RawQuery != "" || u.Fragment != "":
		return base{}, fmt.Errorf("upstream %s://%s: a query or fragment has no meaning here", u.Scheme, u.Host)
	}
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	addr := net.JoinHostPort(u.Hostname(), port)
	prefix := strings.TrimRight(u.EscapedPath(), "/")
	prefix = strings.TrimSuffix(prefix, "/v1")
	return base{name: addr, addr: addr, host: u.Host, prefix: prefix, tls: u.Scheme == "https"}, nil
}

// public reports whether other hosts can reach an address.
func public(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && !t.IP.IsLoopback()
}
