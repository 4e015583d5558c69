package layers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// startsPrograms finds tests that look for Slurm or a browser, and so are likely to start them.
var startsPrograms = regexp.MustCompile(`install\.Find(Slurm)?\(|LookPath\("(slurm|chromium|mariadb)`)

// startNothing are the files that look for Slurm and need no testing.Short, with the reason.
var startNothing = map[string]string{
	"internal/experiment/dependencies_test.go": "it reads what Slurm's programs import",
	"internal/rm/slurm/bench_test.go":          "go test runs no benchmarks",
	"internal/cli/documents_test.go":           "needSlurm skips under -short before it looks",
}

// TestShortNeedsNoSlurm: make check runs the tests with -short, on machines without Slurm and
// browsers. A file with tests, or for tests, that looks for these programs must skip under -short.
func TestShortNeedsNoSlurm(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		switch _, known := startNothing[name]; {
		case name == "internal/layers/check_test.go" || !strings.Contains(string(text), `"testing"`) || !startsPrograms.Match(text):
			if known {
				t.Errorf("%s is in startNothing and does not look for Slurm", name)
			}
		case strings.Contains(string(text), "testing.Short()"):
			found++
		case !known:
			t.Errorf("%s looks for %s and does not skip under -short (want: if testing.Short() { t.Skip(...) })",
				name, startsPrograms.Find(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 5 {
		t.Errorf("%d files skip under -short, want more than five", found)
	}
}
