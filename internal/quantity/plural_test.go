package quantity

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// counted matches a number and a plural noun in a format: the format is wrong for the number 1.
var counted = regexp.MustCompile(`%d (jobs|users|runs|realizations|records|documents|requests|files|sessions|events|` +
	`accounts|partitions|warnings|errors|preemptions|requeues|weeks|draws|submissions)\b`)

// many are formats whose number is never 1, or counts what the reader wrote.
var many = []string{
	"%d runs, ", "first of %d runs", "%d and %d runs are too few", "in %d of %d runs)", // of sets of several runs
	"%d jobs in one day", "want 1 to %d jobs",
}

// apart matches directories whose texts are printed only after a mistake in a file, and directories
// for tests.
var apart = regexp.MustCompile(`/(rm/slurm|rm/slurmmodel|rm/sim|predict/trees|formats/swf|formats/sacct|` +
	`accounting/store|accounting/health|waits/waitstest|hpc|testdata)/`)

// TestPlurals finds formats that print "1 jobs": a number that is not a constant, and a plural noun. Such a format
// should take the noun from [Plural], or both from [Counted].
func TestPlurals(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			apart.MatchString(filepath.ToSlash(path)) {
			return err
		}
		files++
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, 0)
		if err != nil {
			return err
		}
		for _, found := range alwaysMany(file) {
			t.Errorf("%s: %s: a format that prints \"1 jobs\" (want %%s and quantity.Plural)", positions.Position(found.Pos()), found.Value)
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Errorf("%d files: %v", files, err)
	}
	mistake, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x; var a = f("read %d jobs", n) + f("at most %d jobs", most)`, 0)
	if err != nil || len(alwaysMany(mistake)) != 1 {
		t.Errorf("the mistake was not found: %v", err)
	}
}

// alwaysMany returns the texts in calls in which a number that is not a constant comes before a plural noun.
func alwaysMany(file *ast.File) (list []*ast.BasicLit) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for i, arg := range call.Args {
			ast.Inspect(arg, func(n ast.Node) bool {
				switch text, ok := n.(*ast.BasicLit); {
				case ok && text.Kind == token.STRING && i+1 < len(call.Args) && isMany(text.Value):
					list = append(list, text)
				case !ok:
					_, inner := n.(*ast.CallExpr)
					return !inner
				}
				return true
			})
		}
		return true
	})
	return list
}

// isMany reports whether a format has a plural noun after a number, except for formats of bounds
// and the formats of many.
func isMany(format string) bool {
	for _, text := range many {
		format = strings.ReplaceAll(format, text, "")
	}
	for _, at := range counted.FindAllStringIndex(format, -1) {
		before := format[:at[0]]
		bound := false
		for _, word := range []string{"most ", "least ", "want ", "more than ", "first ", " to "} {
			bound = bound || strings.HasSuffix(before, word)
		}
		if !bound {
			return true
		}
	}
	return false
}
