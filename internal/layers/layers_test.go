// Package layers holds the rules of which package may import which, and the test that
// enforces them. It has no code of its own.
//
// The rules are in rules_test.go. A new package fails the test until rules_test.go says what the
// package is for and which packages it may import.
package layers

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the diagram in docs/ARCHITECTURE.md anew")

// module is the prefix of the packages to which the rules apply.
const module = "rmreplay/"

// rule says what the packages that match a pattern may import.
type rule struct {
	layer    string   // the layer of the diagram
	packages string   // a package; with /... at its end, also the packages below it
	may      []string // packages of this module, in the same notation
	never    []string // packages of the standard library and of others
	why      string
}

// reservation says which packages may import what all others may not.
type reservation struct {
	imported string   // a package; with /... at its end, also the packages below it
	by       []string // packages of this module, in the same notation
	why      string
}

// goPackage is what go list says of a package. Its imports do not include the imports of its
// tests.
type goPackage struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

func TestLayers(t *testing.T) {
	packages := list(t)
	for _, problem := range append(check(rules, packages), checkReserved(reserved, packages)...) {
		t.Error(problem)
	}
}

// TestPackages bounds what a package may be: small enough to be read, and named by a noun of
// the field.
func TestPackages(t *testing.T) {
	const maxLines = 4000 // without test files
	vague := []string{"util", "utils", "common", "helper", "helpers", "misc", "models", "shared", "types", "base"}
	for _, p := range list(t) {
		lines := 0
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(text), "\n")
		}
		if lines > maxLines {
			t.Errorf("%s has %d lines without tests (want at most %d: what in it is a package of its own?)", p.ImportPath, lines, maxLines)
		}
		if name := path.Base(p.ImportPath); slices.Contains(vague, name) {
			t.Errorf("%s: %q says nothing (want a noun of the field)", p.ImportPath, name)
		}
	}
}

// TestCheckFails checks that the test above can fail: each of these sets of rules and packages has
// one fault.
func TestCheckFails(t *testing.T) {
	good := []rule{
		{"low", "internal/a", nil, []string{"os"}, "a is the bottom"},
		{"high", "internal/b/...", []string{"internal/a"}, nil, "b uses a"},
	}
	at := func(path string, imports ...string) goPackage {
		return goPackage{ImportPath: module + path, Imports: imports, GoFiles: []string{"x.go"}}
	}
	sound := []goPackage{at("internal/a"), at("internal/b", module+"internal/a"), at("internal/b/c")}
	if problems := check(good, sound); len(problems) > 0 {
		t.Fatalf("sound packages: %q", problems)
	}
	for _, test := range []struct {
		name     string
		rules    []rule
		packages []goPackage
		want     string
	}{
		{"import turned round", good, []goPackage{at("internal/a", module+"internal/b"), at("internal/b")},
			"internal/a imports internal/b: a is the bottom"},
		{"banned import", good, []goPackage{at("internal/a", "os"), at("internal/b", module+"internal/a")},
			"internal/a imports os: a is the bottom"},
		{"package without a rule", good, append(slices.Clone(sound), at("internal/new")),
			"internal/new: no rule is about it (want one in rules_test.go)"},
		{"rule without a package", good, []goPackage{at("internal/a")},
			"the rule of internal/b/...: no package matches it"},
		{"name without a package", []rule{good[0], {"high", "internal/b/...", []string{"internal/a", "internal/z"}, nil, ""}}, sound,
			"the rule of internal/b/...: internal/z: no package matches it"},
		{"permission that nobody uses", good, []goPackage{at("internal/a"), at("internal/b")},
			"the rule of internal/b/...: no package of it imports internal/a (want no such permission)"},
		{"two rules", append(slices.Clone(good), rule{"high", "internal/b/c", nil, nil, ""}), sound,
			"internal/b/c: 2 rules are about it (want one)"},
		{"not from the bottom up", []rule{good[1], good[0]}, sound,
			"the rule of internal/b/...: internal/a has its rule further down (want the rules from the bottom up)"},
	} {
		if problems := check(test.rules, test.packages); !slices.Contains(problems, test.want) {
			t.Errorf("%s: got %q, want %q among them", test.name, problems, test.want)
		}
	}
}

func TestCheckReservedFails(t *testing.T) {
	packages := []goPackage{
		{ImportPath: module + "internal/cli", Imports: []string{"example.org/flags"}},
		{ImportPath: module + "internal/a", Imports: []string{"example.org/flags/more"}},
		{ImportPath: module + "internal/idle"},
	}
	got := checkReserved([]reservation{
		{"example.org/flags/...", []string{"internal/cli", "internal/idle"}, "flags belong to commands"},
		{"example.org/gone", []string{"internal/cli", "internal/away"}, ""},
	}, packages)
	want := []string{
		"internal/a imports example.org/flags/more: flags belong to commands",
		"example.org/flags is reserved for internal/idle, which does not import it",
		"example.org/gone is reserved, and nobody imports it",
		"example.org/gone is reserved for internal/cli, which does not import it",
		"example.org/gone is reserved for internal/away, which is not a package",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// list runs go list over the module.
func list(t *testing.T) []goPackage {
	t.Helper()
	command := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "./...", "./tools/...")
	command.Dir = "../.."
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 { // not this package, which has only tests
			packages = append(packages, p)
		}
	}
	if len(packages) < 10 {
		t.Fatalf("go list found %d packages", len(packages))
	}
	return packages
}

// matches reports whether a pattern of a rule matches a package.
func matches(pattern, path string) bool {
	if family, all := strings.CutSuffix(pattern, "/..."); all {
		return path == family || strings.HasPrefix(path, family+"/")
	}
	return path == pattern
}

// imports reports whether the package imports a package of this module that a pattern matches.
func (p goPackage) imports(pattern string) bool {
	return slices.ContainsFunc(p.Imports, func(imported string) bool {
		path, ours := strings.CutPrefix(imported, module)
		return ours && matches(pattern, path)
	})
}

// check returns what is wrong, in the order of the packages and then of the rules.
func check(rules []rule, packages []goPackage) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, p := range packages {
		path := strings.TrimPrefix(p.ImportPath, module)
		about := slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return !matches(r.packages, path) })
		switch len(about) {
		case 0:
			report("%s: no rule is about it (want one in rules_test.go)", path)
		case 1:
			for _, imported := range about[0].refused(p.Imports) {
				report("%s imports %s: %s", path, imported, about[0].why)
			}
		default:
			report("%s: %d rules are about it (want one)", path, len(about))
		}
	}
	is := func(pattern string) func(goPackage) bool {
		return func(p goPackage) bool { return matches(pattern, strings.TrimPrefix(p.ImportPath, module)) }
	}
	for i, r := range rules {
		if !slices.ContainsFunc(packages, is(r.packages)) {
			report("the rule of %s: no package matches it", r.packages)
		}
		for _, name := range r.may {
			if !slices.ContainsFunc(packages, is(name)) {
				report("the rule of %s: %s: no package matches it", r.packages, name)
			}
			if !slices.ContainsFunc(packages, func(p goPackage) bool { return is(r.packages)(p) && p.imports(name) }) {
				report("the rule of %s: no package of it imports %s (want no such permission)", r.packages, name)
			}
			root := strings.TrimSuffix(name, "/...")
			if slices.ContainsFunc(rules[i+1:], func(later rule) bool { return matches(later.packages, root) }) {
				report("the rule of %s: %s has its rule further down (want the rules from the bottom up)", r.packages, name)
			}
		}
	}
	return problems
}

// checkReserved returns the imports that are reserved for other packages.
func checkReserved(reserved []reservation, packages []goPackage) (problems []string) {
	for _, r := range reserved {
		used := false
		for _, p := range packages {
			path := strings.TrimPrefix(p.ImportPath, module)
			allowed := slices.ContainsFunc(r.by, func(name string) bool { return matches(name, path) })
			for _, imported := range p.Imports {
				if !matches(r.imported, imported) {
					continue
				}
				if used = true; !allowed {
					problems = append(problems, fmt.Sprintf("%s imports %s: %s", path, imported, r.why))
				}
			}
		}
		if !used {
			problems = append(problems, strings.TrimSuffix(r.imported, "/...")+" is reserved, and nobody imports it")
		}
		for _, name := range r.by {
			is := func(p goPackage) bool { return matches(name, strings.TrimPrefix(p.ImportPath, module)) }
			uses := func(p goPackage) bool {
				return is(p) && slices.ContainsFunc(p.Imports, func(i string) bool { return matches(r.imported, i) })
			}
			imported := strings.TrimSuffix(r.imported, "/...")
			switch {
			case !slices.ContainsFunc(packages, is):
				problems = append(problems, fmt.Sprintf("%s is reserved for %s, which is not a package", imported, name))
			case !slices.ContainsFunc(packages, uses):
				problems = append(problems, fmt.Sprintf("%s is reserved for %s, which does not import it", imported, name))
			}
		}
	}
	return problems
}

// refused are the imports that the rule does not allow. A family may import itself.
func (r *rule) refused(imports []string) (refused []string) {
	for _, imported := range imports {
		path, ours := strings.CutPrefix(imported, module)
		allowed := !slices.ContainsFunc(r.never, func(name string) bool { return matches(name, imported) })
		if ours {
			allowed = matches(r.packages, path) || slices.ContainsFunc(r.may, func(name string) bool { return matches(name, path) })
		}
		if !allowed {
			refused = append(refused, path)
		}
	}
	return refused
}

// The diagram is between these lines.
const (
	document     = "../../docs/ARCHITECTURE.md"
	diagramBegin = "<!-- layers: written by make golden -->\n"
	diagramEnd   = "<!-- end of layers -->\n"
)

// TestDiagram compares the diagram of the layers with the rules.
func TestDiagram(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), diagramBegin)
	_, after, closed := strings.Cut(rest, diagramEnd)
	if !found || !closed {
		t.Fatalf("%s has no %q ... %q", document, diagramBegin, diagramEnd)
	}
	want := before + diagramBegin + diagram(rules) + diagramEnd + after
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("%s does not show the rules (make golden writes it)", document)
	}
}

// diagram draws the layers from the top down, each with its packages. A package imports only
// packages below it, or packages further to the left in the same layer.
func diagram(rules []rule) string {
	var layers []string
	members := map[string][]string{}
	widest := 0
	for _, r := range rules {
		if !slices.Contains(layers, r.layer) {
			layers = append(layers, r.layer)
		}
		members[r.layer] = append(members[r.layer], strings.TrimPrefix(r.packages, "internal/"))
		widest = max(widest, len(r.layer))
	}
	const column = 98
	var b strings.Builder
	b.WriteString("```text\n")
	for _, layer := range slices.Backward(layers) {
		line := fmt.Sprintf("%-*s ", widest, layer)
		for _, name := range members[layer] {
			if len(line)+2+len(name) > column {
				b.WriteString(strings.TrimRight(line, " ") + "\n")
				line = strings.Repeat(" ", widest+1)
			}
			line += "  " + name
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString("```\n")
	return b.String()
}
