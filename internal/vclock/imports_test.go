package vclock

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHandledFunctions compares the table of handled functions with the preload library.
func TestHandledFunctions(t *testing.T) {
	f, err := elf.Open(buildShim(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var exported []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			exported = append(exported, s.Name)
		}
	}
	slices.Sort(exported)
	if diff := cmp.Diff(exported, strings.Fields(handled)); diff != "" {
		t.Errorf("the table of handled functions (+) is not what the preload library exports (-):\n%s", diff)
	}
}

// TestTablesOfFunctions checks that each function is in one table, once.
func TestTablesOfFunctions(t *testing.T) {
	all := strings.Fields(handled + harmless)
	for _, names := range unhandled {
		all = append(all, strings.Fields(names)...)
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			t.Errorf("%s is in two tables", all[i])
		}
	}
}

func TestUnhandledImports(t *testing.T) {
	got, err := UnhandledImports(program(t, "imports"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Effect{"flock": Waits, "times": ReadsTime, "clone": Starts, "tgkill": Wakes, "syscall": Calls, "a64l": NotKnown}
	for _, i := range got {
		if want[i.Name] != i.Effect {
			t.Errorf("%v, want %q", i, want[i.Name])
		}
		delete(want, i.Name)
	}
	for name := range want {
		t.Errorf("%s was not found", name)
	}
}

func TestUnhandledImportsOfBadFiles(t *testing.T) {
	static := build(t, "static", "shim/testdata/static.c", "-static")
	if _, err := UnhandledImports(static); !errors.Is(err, ErrStatic) || !strings.Contains(err.Error(), static) {
		t.Errorf("of a static program: %v", err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, text + "-missing"} {
		if _, err := UnhandledImports(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("of %s: %v", path, err)
		}
	}
}
