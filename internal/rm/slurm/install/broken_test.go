package install

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func wantBroken(t *testing.T, err error, program, text string) {
	t.Helper()
	var broken *BrokenError
	if !errors.As(err, &broken) || broken.Program != program || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want a BrokenError of %s with %q", err, program, text)
	}
}

// slurmctld of another kind of machine, and one that is linked statically, are refused with the
// reason. The programs are the ELF headers of /bin/true, changed, and a static program.
func TestBrokenProgram(t *testing.T) {
	header, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	foreign := append([]byte(nil), header...)
	binary.LittleEndian.PutUint16(foreign[18:], uint16(elf.EM_S390)) // e_machine of elf(5)
	path := filepath.Join(t.TempDir(), "slurmctld")
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(header)
	if err := checkProgram(path); err != nil {
		t.Errorf("a program of this machine: %v", err)
	}
	write(foreign)
	wantBroken(t, checkProgram(path), "slurmctld", "built for s390: does not run here (want a build for ")
	// An ELF header of a 32-bit program, which has no further parts.
	short := make([]byte, 52)
	copy(short, "\x7fELF\x01\x01\x01")
	binary.LittleEndian.PutUint16(short[16:], uint16(elf.ET_EXEC))
	binary.LittleEndian.PutUint16(short[18:], uint16(elf.EM_386))
	binary.LittleEndian.PutUint32(short[20:], 1)
	binary.LittleEndian.PutUint16(short[40:], 52)
	write(short)
	wantBroken(t, checkProgram(path), "slurmctld", "built for 386: does not run here")
	write([]byte("#!/bin/sh\n"))
	if err := checkProgram(path); err != nil {
		t.Errorf("a script: %v", err)
	}
}

func TestStaticProgram(t *testing.T) {
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.c"), filepath.Join(dir, "slurmctld")
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-static", "-o", path, source).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no static program can be built: %v: %s", err, out)
	}
	wantBroken(t, checkProgram(path), "slurmctld", "linked statically")
}

// Programs of two releases in one directory are refused.
func TestMixedPrograms(t *testing.T) {
	h := newFakeHome(t)
	in := h.f.find()
	for i, it := range in.Items {
		if it.Name == "sacctmgr" {
			in.Items[i].Version = "24.11.5"
		}
	}
	wantBroken(t, in.checkMix(true), "sacctmgr", "of Slurm 24.11.5, and "+in.Slurmctld+" is of 22.05.8: a mix of two releases")
	if err := in.checkMix(false); err != nil {
		t.Errorf("without accounting: %v", err)
	}
}
