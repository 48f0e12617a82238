package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/streamgauge/streamgauge/cmd/internal/program"
	"github.com/streamgauge/streamgauge/compare"
	"github.com/streamgauge/streamgauge/matrix"
	"github.com/streamgauge/streamgauge/report"
)

// ruleMet is the exit code of compare when a --fail-on rule is met.
const ruleMet = 3

func newCompare(s streams) *cobra.Command {
	var failOn []string
	var format, out string
	var files sides
	cmd := &cobra.Command{
		Use:   "compare [--base] FILE… [--new] FILE…",
		Short: "compare runs cell by cell, with confidence and noise floor",
		Long: "Compares two sets of runs cell by cell: change of the means, its interval, and a verdict that 5 % of comparisons\n" +
			"would give without a difference. Several files a side, or --repeat inside one, give the noise between runs.\n" +
			"A file is a run file, a JSON report of one run, or the JSON of a published matrix.",
		Example: "  loadgen compare before/run.ndjson after/run.ndjson\n" +
			"  loadgen compare --base before/*.ndjson --new after/*.ndjson --fail-on 'total_tok_s<-5%'",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			base, fresh, err := files.sort(args)
			if err == nil {
				err = report.WriteComparison(io.Discard, format, &compare.Comparison{})
			}
			rules, rerr := parseRules(failOn)
			if err = errors.Join(err, rerr); err != nil {
				return program.Usage(err)
			}
			a, aerr := s.readRuns(base)
			b, berr := s.readRuns(fresh)
			if err := errors.Join(aerr, berr); err != nil {
				return err
			}
			c, err := compare.Compare(a, b)
			if err != nil {
				return err
			}
			for i := range c.Base.Origins {
				c.Base.Origins[i].File = base[i]
			}
			for i := range c.New.Origins {
				c.New.Origins[i].File = fresh[i]
			}
			write := func(w io.Writer) error { return report.WriteComparison(w, format, &c) }
			if out == "" || out == "-" {
				err = write(s.out)
			} else {
				err = writeFile(out, write)
			}
			if err != nil {
				return err
			}
			return broken(rules, &c)
		},
	}
	files.bare = cmd.Flags().Args
	cmd.Flags().Var(&sideFlag{&files, baseSide}, "base", "run files of the one side")
	cmd.Flags().Var(&sideFlag{&files, newSide}, "new", "run files of the other side")
	cmd.Flags().StringArrayVar(&failOn, "fail-on", nil, "rule that makes the exit code 3: 'METRIC<-N%', 'METRIC>N%' or lost; repeatable; metrics: "+strings.Join(compare.Metrics(), ", "))
	cmd.Flags().StringVar(&format, "format", "text", strings.Join(report.CompareFormats(), ", "))
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write; empty or - is stdout")
	return cmd
}

const (
	baseSide = iota
	newSide
)

// sides remembers where among the bare words --base and --new stood, so that
// what a shell makes of --base a*.ndjson, one value and bare words, belongs to
// that side.
type sides struct {
	bare  func() []string // those that were parsed so far
	marks []sideMark
}

type sideMark struct {
	side   int
	file   string
	before int // bare words that stood before the flag
}

// sideFlag is --base or --new.
type sideFlag struct {
	all  *sides
	side int
}

func (f *sideFlag) Set(file string) error {
	f.all.marks = append(f.all.marks, sideMark{f.side, file, len(f.all.bare())})
	return nil
}

func (f *sideFlag) String() string { return "" }
func (f *sideFlag) Type() string   { return "FILE…" }

// sort gives each side its files; without flags two bare ones are base and new.
func (s *sides) sort(bare []string) (base, fresh []string, err error) {
	if len(s.marks) == 0 && len(bare) == 2 {
		return bare[:1], bare[1:], nil
	}
	if len(s.marks) > 0 && s.marks[0].before > 0 {
		return nil, nil, fmt.Errorf("%q stands before --base and --new, so it belongs to neither", bare[0])
	}
	var of [2][]string
	for i, m := range s.marks {
		to := len(bare)
		if i+1 < len(s.marks) {
			to = s.marks[i+1].before
		}
		of[m.side] = append(append(of[m.side], m.file), bare[m.before:to]...)
	}
	if len(of[baseSide]) == 0 || len(of[newSide]) == 0 {
		return nil, nil, errors.New("compare needs two files, or --base and --new with at least one file each")
	}
	return of[baseSide], of[newSide], nil
}

func parseRules(texts []string) ([]compare.Rule, error) {
	var rules []compare.Rule
	var errs []error
	for _, text := range texts {
		r, err := compare.ParseRule(text)
		rules, errs = append(rules, r), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("--fail-on: %w", err)
	}
	return rules, nil
}

// readRuns reads the files of a side; lines that are left out are told.
func (s streams) readRuns(paths []string) ([]*matrix.Run, error) {
	var runs []*matrix.Run
	var errs []error
	for _, path := range paths {
		r, err := report.ReadFile(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, bad := range r.Bad {
			fmt.Fprintf(s.err, "%s: line %d is left out: %v\n", path, bad.Line, bad.Err)
		}
		runs = append(runs, &r.Run)
	}
	return runs, errors.Join(errs...)
}

// broken turns the cells that meet a rule into the exit code.
func broken(rules []compare.Rule, c *compare.Comparison) error {
	var errs []error
	for _, r := range rules {
		for _, what := range r.Broken(c) {
			errs = append(errs, fmt.Errorf("%s: %s", r, what))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &program.Exit{Code: ruleMet, Err: errors.Join(errs...)}
}
