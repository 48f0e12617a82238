package loadgen

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/streamgauge/streamgauge/engine"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/stamp"
	"github.com/streamgauge/streamgauge/stream"
	"github.com/streamgauge/streamgauge/upstream"
)

// Deps is what a run works with.
type Deps struct {
	Target *engine.Target
	// Info spares the probe when the caller has made it; Model must be set.
	Info *engine.Info
	// Dialer opens the measured connections; its TLS and Timeout are set from
	// Target and Config.
	Dialer stamp.Dialer
	// Admin reaches the proxy's admin port; nil: a transport of the run's own.
	Admin http.RoundTripper
	// Writer gets every line of the run; nil: none is kept.
	Writer *matrix.Writer
	// Resume, if not nil, is the run to go on with, as matrix.Append read it;
	// Writer is the one it gave. See resume.go.
	Resume *matrix.Run
	// Progress, if not nil, is told what happens. See Event.
	Progress func(Event)
	// Live, if not nil, is kept up to date for screens.
	Live *Live
}

// Outcome is how a run ended.
type Outcome struct {
	Header  matrix.Header
	Plan    Plan
	Cells   []matrix.Cell
	Records int
	Outcome string // done, interrupted, failed
	Message string // one sentence when not done
}

// Outcomes of a run, also in its footer.
const (
	Done    = "done"
	Stopped = "interrupted"
	Broken  = "failed"
)

var errMaxTime = errors.New("--max-time is over")

// runner is the state of one run. It is used by the run's goroutine alone, but
// for what slots read of it.
type runner struct {
	cfg      Config
	deps     Deps
	info     engine.Info
	switches engine.Switches
	plan     Plan
	prompts  *prompts
	lengths  map[[2]int]int // (tokens, limit) -> words
	client   *upstream.Client
	target   []byte // of the requests
	fields   []upstream.Field
	scraper  *engine.Scraper
	base     baseline
	proxy    *proxyRecords
	doubts   []matrix.Warning // about the whole run, from before its header
	redact   *engine.Redactor
	runID    string
	start    stamp.Instant // of the header
	drained  bool          // nothing of ours was sent since the last barrier held
	over     map[[2]int]matrix.Cell

	live    *Live
	now     liveCell
	out     Outcome
	records int
}

// Run measures the matrix and writes it. The error is one clear sentence about
// why the run could not begin, could not be written, or could not go on; an
// interrupted run is none. What was measured is in the Outcome and in the
// writer, header to footer, in every case but a failed beginning.
func Run(ctx context.Context, cfg Config, deps Deps) (Outcome, error) {
	if err := cfg.Validate(); err != nil {
		return Outcome{}, err
	}
	r, err := newRunner(cfg.withDefaults(), deps)
	if err != nil {
		return Outcome{}, err
	}
	if r.cfg.MaxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.cfg.MaxTime, errMaxTime)
		defer cancel()
	}
	defer r.close()
	if err := r.learn(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return Outcome{Outcome: Stopped, Message: sentence(cause)}, fmt.Errorf("before anything was measured, %s: %w", sentence(cause), cause)
		}
		return Outcome{}, r.redacted(err)
	}
	if err := r.begin(ctx); err != nil {
		return r.out, err
	}
	return r.steps(ctx)
}

func newRunner(cfg Config, deps Deps) (*runner, error) {
	u, err := url.Parse(deps.Target.URL)
	if err != nil {
		return nil, fmt.Errorf("the server's address: %w", err)
	}
	r := &runner{
		cfg: cfg, deps: deps, redact: deps.Target.Redactor(), live: deps.Live,
		prompts: newPrompts(cfg.Seed, cfg.Salt, cfg.Ask),
		lengths: map[[2]int]int{}, over: map[[2]int]matrix.Cell{},
		target: []byte(deps.Target.RequestURI(engine.EndpointPath(cfg.Endpoint))),
	}
	if r.live == nil {
		r.live = &Live{}
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", cfg.Seed, cfg.Salt)
	r.runID = fmt.Sprintf("sg-%08x", uint32(h.Sum64()))
	dialer := deps.Dialer
	dialer.Timeout = cfg.ConnectTimeout
	port := u.Port()
	if u.Scheme == "https" {
		if dialer.TLS = deps.Target.TLS; dialer.TLS == nil {
			dialer.TLS = defaultTLS()
		}
		port = orDefault(port, "443")
	}
	r.client = &upstream.Client{Addr: net.JoinHostPort(u.Hostname(), orDefault(port, "80")), Host: u.Host, Dialer: dialer, WriteLimit: time.Minute}
	for name, values := range deps.Target.Headers() {
		for _, v := range values {
			r.fields = append(r.fields, upstream.Field{Name: []byte(name), Value: []byte(v)})
		}
	}
	return r, nil
}

func orDefault(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (r *runner) close() {
	if r.scraper != nil {
		r.scraper.Close()
	}
	r.client.CloseIdle()
	if r.proxy != nil {
		r.proxy.http.CloseIdleConnections()
	}
}

// request is the measured request with this id and body.
func (r *runner) request(id string, body []byte) *upstream.Request {
	fields := make([]upstream.Field, 0, len(r.fields)+3)
	fields = append(fields,
		upstream.Field{Name: []byte("Content-Type"), Value: []byte("application/json")},
		upstream.Field{Name: []byte("Accept"), Value: []byte("text/event-stream")},
		upstream.Field{Name: []byte("X-Request-Id"), Value: []byte(id)})
	return &upstream.Request{Method: http.MethodPost, Target: r.target, Header: append(fields, r.fields...), Body: body}
}

// learn finds out what the server is, what it takes and what it runs now.
func (r *runner) learn(ctx context.Context) error {
	r.stage(Probing, 0)
	if r.deps.Info != nil {
		r.info = *r.deps.Info
	} else {
		info, err := engine.Probe(ctx, r.deps.Target, r.cfg.Model)
		if err != nil {
			return err
		}
		r.info = info
	}
	var err error
	if r.plan, err = NewPlan(r.cfg, r.info); err != nil {
		return err
	}
	if r.cfg.ProxyAdmin != "" {
		if r.proxy, err = findProxy(ctx, r.cfg.ProxyAdmin, r.deps.Admin); err != nil {
			return err
		}
	}
	r.scraper = engine.NewScraper(r.deps.Target, r.info.Kind)
	r.base = r.takeBaseline(ctx)
	r.switches, err = engine.Negotiate(ctx, r.deps.Target, r.info, engine.Defaults(r.info.Kind, r.cfg.ForceLength), r.bodyInput("Hi", 1, "", false))
	if err == nil && r.proxy != nil {
		if fault := r.proxy.outOfPath(ctx, r.deps.Target.URL); fault != "" {
			err = r.doubt("proxy_elsewhere", fault)
		}
	}
	return err
}

// begin writes the header.
func (r *runner) begin(ctx context.Context) error {
	sum := r.firstBody(ctx)
	now := time.Now()
	r.start = stamp.FromTime(now)
	r.out.Plan = r.plan
	r.out.Header = r.header(now, sum)
	if r.deps.Resume != nil {
		if err := r.resume(now); err != nil {
			return err
		}
		for _, d := range r.doubts { // the header stands already
			if err := r.note(d.Code, d.Message); err != nil {
				return err
			}
		}
		return nil
	}
	r.out.Header.Warnings = append(r.out.Header.Warnings, r.doubts...)
	if r.base.running > 0 || r.base.waiting > 0 {
		w := matrix.Warning{Code: "foreign_load", Message: fmt.Sprintf(
			"the server had %g requests running and %g waiting before the run", r.base.running, r.base.waiting)}
		r.out.Header.Warnings = append(r.out.Header.Warnings, w)
	}
	if err := r.write(r.out.Header); err != nil {
		return err
	}
	for _, n := range r.plan.Notes {
		if err := r.note("plan", n); err != nil {
			return err
		}
	}
	return nil
}

// firstBody is the hash of the first request body of the plan: two runs with the
// same one sent the same bodies. "" when its length could not be counted; the
// cell then says why.
func (r *runner) firstBody(ctx context.Context) string {
	for _, s := range r.plan.Steps {
		if !s.Fit.OK {
			continue
		}
		maxTokens := r.cfg.MaxTokens
		if s.Phase == matrix.Prefill {
			maxTokens = 1
		}
		words, err := r.words(ctx, s.Prompt, r.promptLimit(maxTokens))
		if err != nil {
			return ""
		}
		t, err := r.template(r.prompts.head(words, s.Context, genShared), maxTokens, s.Phase == matrix.Prefill)
		if err != nil {
			return ""
		}
		sum := sha256.Sum256(t.append(nil, r.prompts.primeTail(s.Context, 0), ""))
		return hex.EncodeToString(sum[:])
	}
	return ""
}

// steps runs the plan. Whatever ends it, the footer is written.
func (r *runner) steps(ctx context.Context) (Outcome, error) {
	var failed error
	outcome, message := Done, ""
	for i, s := range r.plan.Steps {
		if r.measured(s) {
			continue
		}
		if cause := context.Cause(ctx); cause != nil {
			outcome, message = Stopped, sentence(cause)
			break
		}
		r.now = liveCell{step: s, n: i + 1, of: len(r.plan.Steps)}
		err, werr := r.perform(ctx, s, i+1)
		if werr != nil {
			return r.end(Broken, werr.Error(), werr)
		}
		if cause := context.Cause(ctx); cause != nil {
			outcome, message = Stopped, sentence(cause)
			break
		}
		if err != nil {
			outcome, message = Broken, r.redact.String(err.Error())
			failed = errors.New(message)
			break
		}
	}
	return r.end(outcome, message, failed)
}

// sentence says why a run was ended from outside.
func sentence(cause error) string {
	if errors.Is(cause, errMaxTime) {
		return "the time of the run (--max-time) was over"
	}
	return "the run was interrupted"
}

// perform runs one step of the plan and writes what came of it. failed ends the
// run; unwritten says that nothing can be written any more.
func (r *runner) perform(ctx context.Context, s Step, n int) (failed, unwritten error) {
	if s.Search && s.Fit.OK {
		return r.search(ctx, s, n)
	}
	results, err := r.step(ctx, s, n)
	return err, r.saveAll(results)
}

func (r *runner) saveAll(results []result) error {
	for i := range results {
		if err := r.save(&results[i].cell, results[i].records); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step of the plan.
func (r *runner) step(ctx context.Context, s Step, n int) ([]result, error) {
	if s.Phase == matrix.Offered && s.Fit.OK {
		return r.paced(ctx, s, n)
	}
	c, records, err := r.single(ctx, s, n)
	return []result{{c, records}}, err
}

// single runs a step of one cell.
func (r *runner) single(ctx context.Context, s Step, n int) (matrix.Cell, []stream.Record, error) {
	if !s.Fit.OK {
		c := r.blank(s)
		c.Raise(matrix.OverCapacity, s.Fit.Reason, s.Fit.Message)
		return c, nil, nil
	}
	if s.Phase == matrix.Prefill {
		return r.prefill(ctx, s, n)
	}
	if smaller, ok := r.over[[2]int{s.Repeat, s.Context}]; ok && s.Concurrency > smaller.Concurrency {
		c := r.blank(s)
		c.Raise(matrix.Skipped, "larger", fmt.Sprintf("the server was full at concurrency %d: %s", smaller.Concurrency, smaller.Message))
		return c, nil, nil
	}
	c, records, err := r.decode(ctx, s, n)
	r.noteFull(&c)
	return c, records, err
}

// noteFull remembers a cell that the server admitted in part: larger ones of its
// context are skipped.
func (r *runner) noteFull(c *matrix.Cell) {
	if c.Status == matrix.OverCapacity && c.Reason == reasonAdmitted {
		r.over[[2]int{c.Repeat, c.Context}] = *c
	}
}

// save writes a step's lines, records first, and tells the front end.
func (r *runner) save(c *matrix.Cell, records []stream.Record) error {
	for i := range records {
		if err := r.write(&records[i]); err != nil {
			return err
		}
	}
	r.records += len(records)
	if err := r.write(c); err != nil {
		return err
	}
	r.out.Cells = matrix.Place(r.out.Cells, *c)
	r.tell(Event{Cell: c})
	return nil
}

// end writes the footer.
func (r *runner) end(outcome, message string, failed error) (Outcome, error) {
	r.stage(Finished, 0)
	r.out.Outcome, r.out.Message, r.out.Records = outcome, message, r.records
	err := r.write(matrix.Footer{
		Type: "end", V: matrix.Version, End: time.Now().UTC(),
		Cells: len(r.out.Cells), Records: r.records, Outcome: outcome, Message: message,
	})
	if failed == nil {
		failed = err
	}
	return r.out, failed
}

func (r *runner) write(line any) error {
	if r.deps.Writer == nil {
		return nil
	}
	if err := r.deps.Writer.Write(line); err != nil {
		return fmt.Errorf("run file: %w", err)
	}
	return nil
}

func (r *runner) note(code, message string) error {
	return r.write(matrix.Note{Type: "note", V: matrix.Version, AtNS: int64(stamp.Now() - r.start), Code: code, Message: message})
}

// doubt keeps a warning about the whole run: in its header, while that is not
// written, else as a note.
func (r *runner) doubt(code, message string) error {
	r.tell(Event{Message: "warning: " + message})
	if r.start == 0 {
		r.doubts = append(r.doubts, matrix.Warning{Code: code, Message: message})
		return nil
	}
	return r.note(code, message)
}

// stage publishes what the run is doing; until is when it will be over, 0 unknown.
func (r *runner) stage(s Stage, until stamp.Instant) {
	r.now.stage, r.now.until = s, until
	r.live.set(r.now)
	r.tell(Event{})
}

// gauges publishes the slots of the current cell.
func (r *runner) gauges(g []*gauge) {
	r.now.slots = g
	r.live.set(r.now)
}

func (r *runner) tell(e Event) {
	if r.deps.Progress == nil {
		return
	}
	e.Step, e.N, e.Of, e.Stage = r.now.step, r.now.n, r.now.of, r.now.stage
	r.deps.Progress(e)
}

// abort asks the engine to end a request.
func (r *runner) abort(ctx context.Context, id string) {
	// The connection is closed right after, which ends it too, later: a failed
	// abort shows in the drain barrier.
	_ = engine.Abort(ctx, r.deps.Target, id)
}

// join replaces our readings of prefill samples by the proxy's.
func (r *runner) join(ctx context.Context, records []stream.Record) {
	if r.proxy == nil {
		return
	}
	var lives []*life
	for i := range records {
		rec := &records[i]
		l := &life{rec: rec, onset: clean}
		if rec.SentMonoNS.OK {
			l.sent = stamp.Instant(rec.SentMonoNS.V)
		}
		lives = append(lives, l)
	}
	r.proxy.join(ctx, lives)
}

// blank is the cell of a step without numbers; of several stages the first's.
func (r *runner) blank(s Step) matrix.Cell { return s.Cells()[0] }

func (r *runner) redacted(err error) error {
	var e *engine.Error
	if errors.As(err, &e) {
		return err // already without secrets, and the caller wants its kind
	}
	return errors.New(r.redact.String(err.Error()))
}
