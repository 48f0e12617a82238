package streamgauge_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/streamgauge/streamgauge/"

// rooms lists, for every package of the product, the packages of the product it
// may import. It is the drawing in ARCHITECTURE.md, held to.
var rooms = map[string][]string{
	"hist":       {},
	"detect":     {},
	"wire":       {},
	"stamp":      {},
	"stream":     {"hist", "detect", "wire", "stamp"},
	"matrix":     {"hist", "stream"},
	"passive":    {"hist", "stamp", "stream", "matrix"},
	"engine":     {"wire"},
	"upstream":   {"stamp"},
	"relay":      {"stamp", "upstream"},
	"metrics":    {"stamp", "wire"},
	"configs":    {"detect", "engine"},
	"sim":        {},
	"proxy":      {"detect", "wire", "stamp", "stream", "passive", "metrics", "upstream", "relay"},
	"loadgen":    {"hist", "detect", "wire", "stamp", "stream", "matrix", "engine", "upstream"},
	"compare":    {"stream", "matrix"},
	"report":     {"hist", "stream", "matrix", "compare"},
	"enginetest": {"enginetest/tinymodel"},
}

// outside lists third-party imports that are only for some rooms, with the
// reason.
var outside = []struct {
	path, why string
	rooms     []string
}{
	{"github.com/valyala/fasthttp", "HTTP is known where bytes are sent, not where they are understood", []string{"proxy", "sim"}},
	{"github.com/spf13/viper", "configuration is read once, at the door", []string{"configs"}},
	{"github.com/spf13/cobra", "commands live in cmd", []string{"cmd"}},
	{"github.com/rs/zerolog", "the inner rooms return errors and records, they do not log", []string{"proxy", "cmd"}},
}

// pure rooms import only the standard library (stamp also x/sys).
var pure = map[string][]string{
	"hist": nil, "detect": nil, "wire": nil, "stamp": {"golang.org/x/sys"},
}

// goFiles walks the product's Go files with their imports.
func goFiles(t *testing.T, visit func(dir, file string, imports []string, doc bool)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		var imports []string
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, p)
		}
		visit(filepath.ToSlash(filepath.Dir(path)), path, imports, f.Doc != nil)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRoomsImportOneWay holds the code to the lists, and the lists to the code: what
// may be imported and is not would be a door that nobody watches.
func TestRoomsImportOneWay(t *testing.T) {
	type pass struct{ room, path string }
	unused := map[pass]bool{}
	for room, imports := range rooms {
		for _, path := range imports {
			unused[pass{room, path}] = true
		}
	}
	for _, o := range outside {
		for _, room := range o.rooms {
			unused[pass{room, o.path}] = true
		}
	}
	for room, imports := range pure {
		for _, path := range imports {
			unused[pass{room, path}] = true
		}
	}
	goFiles(t, func(dir, file string, imports []string, _ bool) {
		allowed, listed := rooms[dir]
		top, _, _ := strings.Cut(dir, "/")
		if !listed && !slices.Contains([]string{"cmd", "enginetest", "internal", "e2e", "configs"}, top) {
			t.Errorf("%s: package %s is not in the list of rooms", file, dir)
		}
		for _, path := range imports {
			if room, ours := strings.CutPrefix(path, module); ours {
				delete(unused, pass{dir, room})
				if listed && !slices.Contains(allowed, room) {
					t.Errorf("%s: %s must not import %s (may: %v)", file, dir, room, allowed)
				}
				continue
			}
			for _, o := range outside {
				if !within(path, o.path) {
					continue
				}
				delete(unused, pass{top, o.path})
				if !slices.Contains(o.rooms, top) {
					t.Errorf("%s imports %s: %s", file, path, o.why)
				}
			}
			extra, is := pure[dir]
			if !is || !strings.Contains(strings.Split(path, "/")[0], ".") {
				continue
			}
			i := slices.IndexFunc(extra, func(p string) bool { return within(path, p) })
			if i < 0 {
				t.Errorf("%s: %s is a pure room and must not import %s", file, dir, path)
				continue
			}
			delete(unused, pass{dir, extra[i]})
		}
	})
	for p := range unused {
		t.Errorf("%s may import %s and does not: take it off the list", p.room, p.path)
	}
}

// within reports whether a package belongs to a module or lies in a folder of it.
func within(path, module string) bool {
	return path == module || strings.HasPrefix(path, module+"/")
}

func TestEveryPackageHasOneDoc(t *testing.T) {
	docs := map[string][]string{}
	goFiles(t, func(dir, file string, _ []string, doc bool) {
		docs[dir] = append(docs[dir], map[bool]string{true: file}[doc])
	})
	for dir, files := range docs {
		files = slices.DeleteFunc(files, func(f string) bool { return f == "" })
		if len(files) != 1 {
			t.Errorf("package %s has its doc in %v, want exactly one file", dir, files)
		}
	}
}

// waits are the tests that let real time pass, with the reason.
var waits = map[string]string{
	"internal/chaosloadgen/chaos_test.go": "a run is ended at a random instant: there is no event to wait for",
	"proxy/chaos_test.go":                 "clients and engines that pause at random, on real sockets",
	"relay/limits_linux_test.go":          "that a stream has not ended after its idle limit; the loop's clock is the kernel's",
}

// sleeping finds a wait for a timer; one beside other cases of a select is a limit.
var sleeping = regexp.MustCompile(`time\.Sleep\(|(?m:^.*<-time\.After\()`)

// TestNoSleepInTests keeps timing tests on the fake clock: a sleep in real time
// is either too short on a busy machine or wasted. A file is on the fake clock if
// it makes a bubble, by testing/synctest or by its package's own function for it.
func TestNoSleepInTests(t *testing.T) {
	bubble := regexp.MustCompile(`"testing/synctest"|\b(bubble|inBubble)\(`)
	unused := maps.Clone(waits)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || path == "rooms_test.go" {
			return err
		}
		p, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, wait := range sleeping.FindAllString(string(p), -1) {
			_, known := waits[filepath.ToSlash(path)]
			timer := strings.HasSuffix(wait, "<-time.After(")
			switch {
			case strings.HasPrefix(strings.TrimSpace(wait), "case <-time.After("):
			case timer && bubble.Match(p):
			case timer && known:
				delete(unused, filepath.ToSlash(path))
			default:
				t.Errorf("%s sleeps (%s): wait for an event, or for a timer of a synctest bubble", path, strings.TrimSpace(wait))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range unused {
		t.Errorf("%s no longer sleeps: take it off the list", path)
	}
}
