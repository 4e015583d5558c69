package install

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"rmreplay/internal/slurmspec"
)

// BrokenError says that a Slurm was found, but cannot be used for a replay.
type BrokenError struct {
	Program, Path string
	Err           error
}

func (e *BrokenError) Error() string { return fmt.Sprintf("%s (%s): %v", e.Program, e.Path, e.Err) }

// Unwrap returns the wrapped error.
func (e *BrokenError) Unwrap() error { return e.Err }

// machines are the processor types in ELF files by GOARCH.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "ppc64le": elf.EM_PPC64}

// checkProgram returns a [*BrokenError] if slurmctld is built for another processor or cannot load
// the preload library. It does not check files that are not ELF, such as scripts; they fail when
// rmreplay asks for their version.
func checkProgram(path string) error {
	f, err := elf.Open(path)
	var unreadable *fs.PathError
	switch {
	case errors.As(err, &unreadable):
		return &BrokenError{"slurmctld", path, err}
	case err != nil: // not a complete ELF file
		return nil
	}
	defer f.Close()
	want := machines[runtime.GOARCH]
	switch {
	case f.Machine != want:
		err = fmt.Errorf("built for %s: does not run here (want a build for %s)", machineName(f.Machine), machineName(want))
	case f.Class != elf.ELFCLASS64:
		err = errors.New("a 32-bit program, into which the preload library cannot be loaded (want a 64-bit build)")
	case interpreter(path) == "":
		err = errors.New("linked statically, so the preload library cannot put it under virtual time (want a build with " +
			"shared libraries)")
	default:
		return nil
	}
	return &BrokenError{"slurmctld", path, err}
}

func machineName(m elf.Machine) string { return strings.ToLower(strings.TrimPrefix(m.String(), "EM_")) }

// pluginRelease returns the release for which a plugin was built. The plugin's symbol plugin_version has the major
// number, the minor number and the patch in a byte each (SLURM_VERSION_NUM in slurm.h). The result is zero if the
// plugin has no such symbol.
func pluginRelease(path string) (none slurmspec.Release) {
	f, err := elf.Open(path)
	if err != nil {
		return none
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return none
	}
	for _, s := range symbols {
		if s.Name != "plugin_version" || s.Section == elf.SHN_UNDEF || int(s.Section) >= len(f.Sections) {
			continue
		}
		var number [4]byte
		section := f.Sections[s.Section]
		if _, err := section.ReadAt(number[:], int64(s.Value-section.Addr)); err != nil {
			return none
		}
		v := f.ByteOrder.Uint32(number[:])
		return slurmspec.Release{Major: int(v >> 16 & 0xff), Minor: int(v >> 8 & 0xff), Patch: int(v & 0xff)}
	}
	return none
}
