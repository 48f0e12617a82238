// Package readme reads the commands that the documents show, so that tests can
// hold them to the programs.
package readme

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Command is one shown command.
type Command struct {
	Place string   // file:line
	Args  []string // the program's name first
}

// Commands returns the commands of a program in the sh blocks of README.md and
// of the documents below root, as `program …` and as `go run ./cmd/program …`.
func Commands(root, program string) ([]Command, error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	var out []Command
	for _, path := range append([]string{filepath.Join(root, "README.md")}, files...) {
		p, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, c := range shown(filepath.Base(path), string(p)) {
			if len(c.Args) > 3 && slices.Equal(c.Args[:3], []string{"go", "run", "./cmd/" + program}) {
				c.Args = append([]string{program}, c.Args[3:]...)
			}
			if c.Args[0] == program {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// shown are the commands of a document's sh blocks.
func shown(name, text string) []Command {
	var out []Command
	inside := false
	joined, first := "", 0
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```sh"
			continue
		case !inside:
			continue
		}
		if joined == "" {
			first = i + 1
		}
		if head, more := strings.CutSuffix(line, `\`); more {
			joined += head + " "
			continue
		}
		for _, args := range split(joined + line) {
			out = append(out, Command{fmt.Sprintf("%s:%d", name, first), args})
		}
		joined = ""
	}
	return out
}

// split cuts a line of shell into its simple commands and those into words. It
// knows quotes, the operators between commands, redirections, comments and
// assignments; expansions stay as they are.
func split(line string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	begun, skip := false, false // skip: the next word names a file
	quote := rune(0)
	endWord := func() {
		w := word.String()
		if begun && !skip && (len(words) > 0 || !strings.Contains(w, "=")) {
			words = append(words, w)
		}
		if begun {
			skip = false
		}
		word.Reset()
		begun = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			endWord()
		case r == '#' && !begun:
			endCommand()
			return commands
		case r == '|' || r == '&' || r == ';':
			endCommand()
		case r == '>' || r == '<':
			if word.String() == "2" { // the descriptor
				word.Reset()
				begun = false
			}
			endWord()
			skip = true
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	endCommand()
	return commands
}
