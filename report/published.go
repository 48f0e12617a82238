package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/streamgauge/streamgauge/matrix"
)

// ReadFile reads a run for reporting or comparing: a run file, the JSON report
// of one run, or the JSON of a published matrix (one object with "rows", as
// llm-inference-bench has it).
func ReadFile(path string) (*Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	kind, err := sniff(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var run *Source
	switch kind {
	case kindPublished:
		run, err = readPublished(f)
	case kindReport:
		run, err = readReport(f)
	default:
		if run, err = readRun(f); err != nil && kind == kindForeign {
			err = errForeign // clearer than what is wrong with it as a run file
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return run, nil
}

type fileKind int

const (
	kindRun       fileKind = iota // also what is none of the others: its reader says why
	kindPublished                 // {…, "rows": […]}
	kindReport                    // {"header": …, "cells": […]}
	kindForeign                   // an object that is none of ours
)

var errForeign = errors.New("not a run file, a JSON report of a run or a published matrix, but JSON of another kind")

// lineTypes are the types of a run file's lines.
var lineTypes = []string{"header", "record", "cell", "note", "end"}

// sniff tells the kinds apart by the keys of the file's first JSON value. Every
// line of a run file is a value of its own, with "type" as its first key.
func sniff(r io.Reader) (fileKind, error) {
	d := json.NewDecoder(r)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return kindRun, nil //nolint:nilerr // not JSON at all: matrix.Read names the line
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return kindRun, err
		}
		switch key {
		case "type":
			var is string
			if d.Decode(&is) != nil || !slices.Contains(lineTypes, is) {
				return kindForeign, nil //nolint:nilerr // a type that is no word is none of ours
			}
			return kindRun, nil
		case "rows":
			return kindPublished, nil
		case "header":
			return kindReport, nil
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return kindRun, err
		}
	}
	return kindForeign, nil
}

// publishedFacts are the facts of a published matrix that have a place of their
// own in our header; every other key becomes a note.
type publishedFacts struct {
	Model     string  `json:"model"`
	Engine    string  `json:"engine"`
	Version   string  `json:"engine_version"`
	Tool      string  `json:"tool"`
	Seconds   float64 `json:"seconds"`
	MaxOutput int     `json:"max_output"`
}

// readPublished reads a published matrix. Its rows carry the keys and units of
// our cell lines; what it does not say (KV capacity, settle, rules) stays unknown.
func readPublished(r io.Reader) (*Source, error) {
	p, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var facts publishedFacts
	var rest map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(p, &facts), json.Unmarshal(p, &rest)); err != nil {
		return nil, err
	}
	run := &Source{Run: matrix.Run{End: &matrix.Footer{Outcome: "done"}}}
	run.Header = matrix.Header{
		Tool:   facts.Tool,
		Engine: matrix.Engine{Kind: facts.Engine, Version: facts.Version, Model: facts.Model},
		Config: matrix.Config{DurationS: facts.Seconds, MaxTokens: facts.MaxOutput},
		Notes:  map[string]string{},
	}
	if err := json.Unmarshal(rest["rows"], &run.Cells); err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	for _, known := range []string{"model", "engine", "engine_version", "tool", "seconds", "max_output", "rows"} {
		delete(rest, known)
	}
	for k, raw := range rest {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(bytes.TrimSpace(raw))
		}
		run.Header.Notes[k] = text
	}
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Phase != matrix.Prefill && c.Phase != matrix.Decode {
			return nil, fmt.Errorf("row %d: phase %q is neither prefill nor decode", i+1, c.Phase)
		}
	}
	return run, nil
}
