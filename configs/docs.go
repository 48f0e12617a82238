package configs

import (
	"fmt"
	"strings"
)

// Markdown is the reference of both programs' settings, docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Settings

Written by ` + "`go test ./configs -update`" + ` from the table that also makes the flags and the shipped files; do not edit.

A setting is a flag ` + "`--name`" + `, a variable ` + "`STREAMGAUGE_NAME`" + ` (upper case, - as _) and a key ` + "`name`" + ` of the YAML file given by ` + "`--config`" + `.
The first of these that is there holds: flag, variable, file, default. An unknown key of the file is an error.

- **Lists** are separated by commas, or are YAML lists. ` + "`1..128`" + ` is 1,2,4,…,128, ` + "`1..8+1`" + ` is 1,2,…,8, ` + "`1,3,128`" + ` stands as it is; the end of a range is always in. Order is kept, duplicates drop.
  Contexts know ` + "`k`" + ` (1024), ` + "`m`" + ` (1024·1024) and ` + "`max`" + `, the largest that fits.
- **Sizes** are 4096, 64KiB, 64MiB, 1GiB (or KB, MB, GB for powers of ten), **durations** 500ms, 30s, 1h30m, **percentages** 1%.
- **Repeatable** settings are repeated flags, YAML lists, or lines of the variable.
- **Secrets** have no flag, since ` + "`ps`" + ` shows flags: keys and tokens come from files, the server's key also from ` + "`STREAMGAUGE_API_KEY`" + `, else ` + "`OPENAI_API_KEY`" + `.
- **Addresses** of servers may have a path; ` + "`/v1`" + ` at the end is dropped.

All mistakes are reported together, a sentence each, and the exit code is 2.
`)
	section(&b, "loadgen", "configs/loadgen.yaml", LoadgenKeys())
	section(&b, "proxy", "configs/proxy.yaml", ProxyKeys())
	return b.String()
}

func section(b *strings.Builder, program, file string, keys Keys) {
	fmt.Fprintf(b, "\n## %s\n\n`%s` has every key with its default.\n", program, file)
	group := ""
	for i := range keys {
		k := &keys[i]
		if k.Group != group {
			group = k.Group
			fmt.Fprintf(b, "\n### %s\n\n| flag and key | variable | type | default | meaning |\n|---|---|---|---|---|\n", group)
		}
		fmt.Fprintf(b, "| `--%s` | `%s` | %s | %s | %s |\n", k.Name, k.Env(), cell(k.word()), cell(or(k.fallback(), "–")), cell(k.Help))
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// cell keeps a | from ending a table's cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// YAML is the file of a program with every key at its default.
func YAML(program string, keys Keys) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Settings of %s: every key, with its default. Use it with --config; delete what you\n", program)
	b.WriteString("# do not change. Flags and STREAMGAUGE_* variables win over this file.\n")
	b.WriteString("# Written by go test ./configs -update; docs/configuration.md is the same as a table.\n")
	group := ""
	for i := range keys {
		k := &keys[i]
		if k.Group != group {
			group = k.Group
			fmt.Fprintf(&b, "\n# --- %s ---\n", group)
		}
		fmt.Fprintf(&b, "\n# %s (%s)", k.Help, k.word())
		if k.Shown != "" {
			fmt.Fprintf(&b, "; default: %s", k.Shown)
		}
		fmt.Fprintf(&b, "\n%s: %s\n", k.Name, k.yaml())
	}
	return b.String()
}

// yaml is the default as a YAML value.
func (k *Key) yaml() string {
	switch {
	case k.Repeats():
		return "[]"
	case k.Default == "":
		return `""`
	case k.Type == Bool, k.Type == Count && isNumber(k.Default), k.Type == Seed:
		return k.Default
	}
	return `"` + k.Default + `"`
}
