package vclock

import (
	"debug/elf"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Effect says how a function affects virtual time.
type Effect string

// The effects.
const (
	Waits     Effect = "can wait"
	ReadsTime Effect = "reads or sets the time"
	Starts    Effect = "makes threads or processes"
	Wakes     Effect = "can wake another thread"
	Calls     Effect = "makes system calls directly"
	// NotKnown is the effect of a function that is in no table.
	NotKnown Effect = "is not known"
)

// Import is a function of the C library that a file imports and that the preload library does not replace. If such a
// function waits, the virtual clock may stand still for ever. If such a function reads the time, it gets real time.
type Import struct {
	Path   string // the file
	Name   string // the function
	Effect Effect
}

func (i Import) String() string {
	return fmt.Sprintf("%s imports %s, which %s", i.Path, i.Name, i.Effect)
}

// ErrStatic means that a program is linked statically: it has no dynamic symbols, and the preload
// library has no effect on it.
var ErrStatic = errors.New("linked statically, so it cannot run under the virtual clock")

// UnhandledImports returns the functions of the GNU C library that programs and shared libraries import, except
// functions that the preload library replaces or that are known to be harmless. The functions are ordered by file and
// name. UnhandledImports examines only these files, not the libraries that they load. The error is [ErrStatic], or
// names the file that cannot be read.
func UnhandledImports(paths ...string) ([]Import, error) {
	effects := knownEffects()
	var out []Import
	for _, path := range paths {
		names, err := cLibraryImports(path)
		if err != nil {
			return nil, fmt.Errorf("looking for what %s imports: %w", path, err)
		}
		for _, name := range names {
			effect, known := effects[name]
			if !known {
				effect = NotKnown
			}
			if effect != "" {
				out = append(out, Import{path, name, effect})
			}
		}
	}
	return out, nil
}

// knownEffects returns the effects of all functions in the tables; "" for functions that are
// replaced or harmless.
func knownEffects() map[string]Effect {
	effects := map[string]Effect{}
	add := func(names string, e Effect) {
		for _, name := range strings.Fields(names) {
			effects[name] = e
		}
	}
	add(harmless, "")
	add(handled, "")
	for e, names := range unhandled {
		add(names, e)
	}
	return effects
}

// cLibraryImports returns the names of the symbols that a file imports from the GNU C library, sorted. Symbols of the
// GNU C library have versions such as GLIBC_2.34.
func cLibraryImports(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		return nil, ErrStatic
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range symbols {
		if strings.HasPrefix(s.Version, "GLIBC") {
			names = append(names, s.Name)
		}
	}
	sort.Strings(names)
	return names, nil
}
