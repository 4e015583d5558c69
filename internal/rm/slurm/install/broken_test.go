package install

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// program386 returns the ELF header of a 32-bit program, which has no further parts.
func program386() []byte {
	header := make([]byte, 52)
	copy(header, "\x7fELF\x01\x01\x01")
	binary.LittleEndian.PutUint16(header[16:], uint16(elf.ET_EXEC))
	binary.LittleEndian.PutUint16(header[18:], uint16(elf.EM_386))
	binary.LittleEndian.PutUint32(header[20:], 1)
	binary.LittleEndian.PutUint16(header[40:], 52)
	return header
}

// checkProgram refuses a slurmctld that is built for another processor or linked statically, and
// gives the reason. The programs are the changed ELF header of /bin/true, and a static program.
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
	short := program386()
	write(short)
	wantBroken(t, checkProgram(path), "slurmctld", "built for 386: does not run here")
	// A 32-bit program for this machine's processor, as in the x32 ABI.
	binary.LittleEndian.PutUint16(short[18:], uint16(machines[runtime.GOARCH]))
	write(short)
	wantBroken(t, checkProgram(path), "slurmctld", "a 32-bit program")
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

// prefixLikeMachine makes the prefix of a site's build from links to the machine's own Slurm.
func prefixLikeMachine(t *testing.T) string {
	t.Helper()
	in, err := Find()
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	prefix := t.TempDir()
	links := map[string]string{"sbin/slurmctld": in.Slurmctld, "sbin/slurmdbd": in.Slurmdbd}
	for _, client := range []string{in.Scontrol, in.Squeue, in.Sacctmgr, in.Sacct} {
		links["bin/"+filepath.Base(client)] = client
	}
	plugins, err := filepath.Glob(filepath.Join(in.PluginDir, "*.so"))
	if err != nil {
		t.Fatal(err)
	}
	for _, plugin := range plugins {
		links["lib/slurm/"+filepath.Base(plugin)] = plugin
	}
	for link, path := range links {
		link = filepath.Join(prefix, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(path, link)); err != nil {
			t.Fatal(err)
		}
	}
	return prefix
}

// relink replaces a link.
func relink(path, link string) error { return errors.Join(os.Remove(link), os.Symlink(path, link)) }

// A program that does not run is refused with its error message. The programs were copied in part,
// lack a library, or are built for another processor.
func TestProgramsThatDoNotRun(t *testing.T) {
	if _, err := FindSlurm(prefixLikeMachine(t)); err != nil {
		t.Fatalf("a site's build like the machine's: %v", err)
	}
	header, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	foreign := append([]byte(nil), header...)
	binary.LittleEndian.PutUint16(foreign[18:], uint16(elf.EM_S390)) // e_machine of elf(5)
	for _, test := range []struct {
		file    string
		content []byte
		want    string
	}{
		{"sbin/slurmctld", header[:4000], "does not run"},
		{"sbin/slurmctld", []byte("#!/bin/sh\necho no module loaded >&2\nexit 3\n"), "does not run (exit status 3): no module loaded"},
		{"sbin/slurmdbd", foreign, "does not run"},
		{"bin/scontrol", needsLibrary(t), "libabsent.so: cannot open shared object file"},
	} {
		prefix := prefixLikeMachine(t)
		path := filepath.Join(prefix, test.file)
		if err := errors.Join(os.Remove(path), os.WriteFile(path, test.content, 0o755)); err != nil {
			t.Fatal(err)
		}
		in, err := FindSlurm(prefix)
		wantBroken(t, err, filepath.Base(path), test.want)
		if row := in.item(filepath.Base(path)).row(err); row.Status != Missing || !strings.Contains(row.Found, test.want) {
			t.Errorf("doctor says %+v", row)
		}
		if accounting := test.file == "sbin/slurmdbd"; (in.Need(false) == nil) != accounting {
			t.Errorf("%s, without accounting: %v", test.file, in.Need(false))
		}
	}
}

// needsLibrary returns a program whose library is missing.
func needsLibrary(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	library, path := filepath.Join(dir, "libabsent.so"), filepath.Join(dir, "program")
	for _, build := range []struct{ source, options string }{
		{"int f(void) { return 0; }\n", "-shared -fPIC -o " + library},
		{"int f(void);\nint main(void) { return f(); }\n", "-L" + dir + " -o " + path},
	} {
		args := append(strings.Fields(build.options), "-x", "c", "-")
		if !strings.Contains(build.options, "-shared") {
			args = append(args, "-x", "none", "-labsent")
		}
		cc := exec.Command("cc", args...)
		cc.Stdin = strings.NewReader(build.source)
		if out, err := cc.CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: no program can be built: %v: %s", err, out)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
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

// A site's build that lacks a part is refused with the name of the part. A part of the machine's
// own Slurm does not replace it.
func TestIncompletePrefix(t *testing.T) {
	for file, want := range map[string]string{
		"sbin/slurmctld":                        "no slurmctld there",
		"bin/sacctmgr":                          "sacctmgr",
		"lib/slurm":                             "plugin",
		"lib/slurm/auth_none.so":                "auth_none",
		"lib/slurm/accounting_storage_mysql.so": "accounting_storage_mysql",
	} {
		prefix := prefixLikeMachine(t)
		if err := os.RemoveAll(filepath.Join(prefix, file)); err != nil {
			t.Fatal(err)
		}
		in, err := FindSlurm(prefix)
		if err == nil {
			err = in.Need(true)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: error %v, want %q", file, err, want)
		}
		for _, row := range Examine(prefix, Needs{Nodes: 1}).Checks {
			if row.Name == "clock's functions" && row.Status != OK {
				t.Errorf("without %s: %s: %s", file, row.Name, row.Found)
			}
		}
	}
}

// FindSlurm refuses a slurmctld that is built for another processor or for 32 bits, or that is
// linked statically, before it starts any program.
func TestForeignPrefix(t *testing.T) {
	contents := map[string][]byte{"built for 386: does not run here": program386()}
	if header, err := os.ReadFile("/bin/true"); err == nil {
		foreign := append([]byte(nil), header...)
		binary.LittleEndian.PutUint16(foreign[18:], uint16(elf.EM_S390))
		contents["built for s390: does not run here"] = foreign
	}
	static := filepath.Join(t.TempDir(), "static")
	cc := exec.Command("cc", "-static", "-o", static, "-x", "c", "-")
	cc.Stdin = strings.NewReader("int main(void) { return 0; }\n")
	if err := cc.Run(); err == nil {
		if contents["linked statically"], err = os.ReadFile(static); err != nil {
			t.Fatal(err)
		}
	}
	for want, content := range contents {
		prefix := prefixLikeMachine(t)
		path := filepath.Join(prefix, "sbin/slurmctld")
		if err := errors.Join(os.Remove(path), os.WriteFile(path, content, 0o755)); err != nil {
			t.Fatal(err)
		}
		_, err := FindSlurm(prefix)
		wantBroken(t, err, "slurmctld", want)
	}
}
