package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/cli/console"
)

// TestCommandReference compares docs/commands with the commands. Run make docs after a change
// of a flag or of a help text.
func TestCommandReference(t *testing.T) {
	committed := filepath.Join("..", "..", "docs", "commands")
	generated := committed
	if !*update {
		generated = t.TempDir()
	}
	if code := execute(t.Context(), []string{"docs", "markdown", generated}, io.Discard, t.Output()); code != console.ExitOK {
		t.Fatalf("exit status %d", code)
	}
	got, want := pages(t, generated), pages(t, committed)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/commands is not up to date with the commands (run: make docs)\n%.3000s", diff)
	}
	if len(got) < len(newRootCommand(&globals{}).Commands()) {
		t.Errorf("%d pages: fewer than commands", len(got))
	}
}

// pages returns the pages in dir by name.
func pages(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(name)] = string(text)
	}
	return texts
}

func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if code := execute(t.Context(), []string{"docs", "man", dir}, io.Discard, t.Output()); code != console.ExitOK {
		t.Fatalf("exit status %d", code)
	}
	text, err := os.ReadFile(filepath.Join(dir, "rmreplay-workload-build.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".TH", "RMREPLAY", "SubmitLine", "cluster-output"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("rmreplay-workload-build.1 has no %q:\n%.600s", want, text)
		}
	}
}
