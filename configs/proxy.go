package configs

import (
	"time"

	"github.com/streamgauge/streamgauge/detect"
)

// Proxy is the settings of the proxy. The key of each field names its flag; the
// table below says what it means. A duration of 0 is "off".
type Proxy struct {
	Upstreams      []string `key:"upstream"` // bases, without /v1
	Listen         string   `key:"listen"`
	Admin          string   `key:"admin"` // "off": none
	AdminTokenFile string   `key:"admin-token-file"`
	ListenCert     string   `key:"listen-cert"`
	ListenKey      string   `key:"listen-key"`
	CA             string   `key:"ca"`
	Cert           string   `key:"cert"`
	TLSKey         string   `key:"key"`
	Insecure       bool     `key:"insecure"`

	MaxBody    int64 `key:"max-body"`
	BufferBody int64 `key:"buffer-body"`
	MaxHeader  int64 `key:"max-header"`
	MaxConns   int   `key:"max-conns"`

	ConnectTimeout time.Duration `key:"connect-timeout"`
	HeaderTimeout  time.Duration `key:"header-timeout"`
	IdleTimeout    time.Duration `key:"idle-timeout"`
	WriteTimeout   time.Duration `key:"write-timeout"`
	ReadTimeout    time.Duration `key:"read-timeout"`
	ClientIdle     time.Duration `key:"client-idle"`
	KeepaliveIdle  time.Duration `key:"keepalive-idle"`
	Drain          time.Duration `key:"drain"`
	HalfClose      string        `key:"half-close"`
	EventLoop      bool          `key:"event-loop"`
	HealthPath     string        `key:"health-path"`
	HealthEvery    time.Duration `key:"health-every"`

	Models        []string      `key:"model"`
	ModelsEvery   time.Duration `key:"models-every"`
	ModelsKeyFile string        `key:"models-key-file"`

	Stamps            string `key:"stamps"`
	Detect            bool   `key:"detect"`
	DetectCycles      int    `key:"detect-cycles"`
	DetectChars       int    `key:"detect-chars"`
	DetectWhitespace  int    `key:"detect-whitespace"`
	DetectPeriodBytes int64  `key:"detect-period-bytes"`
	DetectPeriodChars int    `key:"detect-period-chars"`

	Policies    []string `key:"policy"`
	InjectUsage []string `key:"inject-usage"`

	Ring          int    `key:"ring"`
	RingBytes     int64  `key:"ring-bytes"`
	Record        string `key:"record"`
	RecordMaxSize int64  `key:"record-max-size"`
	RecordKeep    int    `key:"record-keep"`
	StoreText     bool   `key:"store-text"`

	AccessLog       bool    `key:"access-log"`
	AccessLogSample float64 `key:"access-log-sample"`
	LogLevel        string  `key:"log-level"`
	LogFormat       string  `key:"log-format"`
}

// Limits are the repetition detector's.
func (c *Proxy) Limits() detect.Limits {
	return detect.Limits{Cycles: c.DetectCycles, Chars: c.DetectChars, WhiteSpace: c.DetectWhitespace,
		PeriodBytes: int(c.DetectPeriodBytes), PeriodChars: c.DetectPeriodChars}
}

// ProxyKeys is the table of the proxy's settings.
func ProxyKeys() Keys {
	ports := []Key{
		{Name: "upstream", Type: URLs, Shown: "required", Help: "base URL of an inference server; /v1 at its end is dropped; repeatable"},
		{Name: "listen", Type: Address, Default: ":9000", Help: "address of the data port"},
		{Name: "admin", Type: Address, Default: "127.0.0.1:9464", Zero: "off", Help: "address of the admin port: metrics, records, health; off for none"},
		{Name: "admin-token-file", Type: File, Shown: "no token", Help: "file that holds the bearer token the admin port asks for"},
		{Name: "listen-cert", Type: File, Shown: "no TLS", Help: "certificate of the data port, PEM, the chain behind it"},
		{Name: "listen-key", Type: File, Help: "its private key, PEM"},
		{Name: "ca", Type: File, Shown: "the system's", Help: "certificates of the authorities to trust for https upstreams, PEM"},
		{Name: "cert", Type: File, Shown: "none", Help: "certificate to show to https upstreams, PEM"},
		{Name: "key", Type: File, Help: "its private key, PEM"},
		{Name: "insecure", Type: Bool, Default: "false", Help: "do not check the upstreams' certificates"},
	}
	sizes := []Key{
		{Name: "max-body", Type: Bytes, Default: "64MiB", Help: "largest request body; a larger one gets 413"},
		{Name: "buffer-body", Type: Bytes, Default: "4MiB", Help: "largest request body that is held, so that it can be sent again on a stale connection; a larger one is streamed"},
		{Name: "max-header", Type: Bytes, Default: "64KiB", Help: "largest header block"},
		{Name: "max-conns", Type: Count, Default: "16384", Min: 1, Help: "most connections to one upstream; past it clients get 503"},
	}
	times := []Key{
		{Name: "connect-timeout", Type: Duration, Default: "10s", Help: "longest time to connect to an upstream, TLS included"},
		{Name: "header-timeout", Type: Duration, Default: "off", Zero: "off", Help: "longest wait for a response's header; a prefill may take minutes"},
		{Name: "idle-timeout", Type: Duration, Default: "off", Zero: "off", Help: "longest silence inside a response's body"},
		{Name: "write-timeout", Type: Duration, Default: "60s", Zero: "off", Help: "longest time one write to a client may take"},
		{Name: "read-timeout", Type: Duration, Default: "60s", Zero: "off", Help: "longest silence inside a client's request"},
		{Name: "client-idle", Type: Duration, Default: "120s", Zero: "off", Help: "longest silence between two requests of a client's connection"},
		{Name: "keepalive-idle", Type: Duration, Default: "2s", Help: "how long an unused upstream connection is kept; stay below the server's own limit (uvicorn: 5s)"},
		{Name: "drain", Type: Duration, Default: "30s", Zero: "off", Help: "how long open streams may go on after the signal to stop"},
		{Name: "half-close", Type: Choice, Default: "gone", Choices: []string{"gone", "stay"}, Help: "what a client is that closes only its sending side"},
		{Name: "event-loop", Type: OnOff, Default: "on", Help: "let event loops serve plain requests and carry streams, where both sides are plain TCP on Linux; off gives each connection a goroutine"},
		{Name: "health-path", Type: Text, Shown: "none asked", Help: "path that is asked at an upstream that was set aside, until it answers 2xx, as /health of vLLM and llama.cpp; not one that costs tokens, as SGLang's /health does"},
		{Name: "health-every", Type: Duration, Default: "2s", Help: "how often it is asked"},
	}
	labels := []Key{
		{Name: "model", Type: Names, Help: "name that may be a label value besides those the upstreams list; repeatable"},
		{Name: "models-every", Type: Duration, Default: "60s", Zero: "off", Help: "how often the upstreams' lists of models are read"},
		{Name: "models-key-file", Type: File, Help: "file that holds the key for reading those lists, used for nothing else"},
	}
	watching := append([]Key{
		{Name: "detect", Type: OnOff, Default: "on", Help: "look for repetition in the streams"},
	}, measuring()...)
	loops := []Key{
		{Name: "policy", Type: Names, Shown: "observe", Help: "what to do with streams that repeat themselves, by route and model: observe, tag or cut, as in cut:model=foo,route=chat; the first that matches holds; repeatable"},
		{Name: "inject-usage", Type: Names, Shown: "no route", Help: "route (chat, completions) whose streaming requests are made to ask for usage if they say nothing of it; repeatable"},
	}
	records := []Key{
		{Name: "ring", Type: Count, Default: "16384", Min: 1, Help: "records kept for /records"},
		{Name: "ring-bytes", Type: Bytes, Default: "64MiB", Help: "memory that those may take"},
		{Name: "record", Type: Path, Shown: "none", Help: "file that takes each stream's record as one line of JSON"},
		{Name: "record-max-size", Type: Bytes, Default: "256MiB", Help: "size at which that file is renamed and a new one begun"},
		{Name: "record-keep", Type: Count, Default: "3", Min: 1, Help: "renamed files that are kept"},
		{Name: "store-text", Type: Bool, Default: "false", Help: "keep excerpts of looping text and the engines' error messages in records"},
	}
	output := append([]Key{
		{Name: "access-log", Type: Bool, Default: "false", Help: "write a line of JSON to stderr for each request that is over"},
		{Name: "access-log-sample", Type: Share, Default: "100%", Help: "share of the requests that get one; those that failed all do"},
	}, logging()...)
	var ks Keys
	ks = ks.group("Ports", ports...)
	ks = ks.group("Sizes", sizes...)
	ks = ks.group("Times", times...)
	ks = ks.group("Labels", labels...)
	ks = ks.group("Measuring", watching...)
	ks = ks.group("Policies", loops...)
	ks = ks.group("Records", records...)
	return ks.group("Output", output...)
}

func logging() []Key {
	return []Key{
		{Name: "log-level", Type: Choice, Default: "info", Choices: []string{"debug", "info", "warn", "error"}, Help: "least level that is logged"},
		{Name: "log-format", Type: Choice, Default: "console", Choices: []string{"console", "json"}, Help: "form of log lines on stderr"},
	}
}
