package formats

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"rmreplay/internal/workload"
)

// TestAccounting reads a directory of daily files, each compressed in another way.
func TestAccounting(t *testing.T) {
	dir := t.TempDir()
	compress := map[string]func(io.Writer) (io.WriteCloser, error){
		"20240301.xz":  func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		"20240302.zst": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, packer := range compress {
		var b bytes.Buffer
		z, err := packer(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(z, pbsJob(name[7:8], "1700000000", "4", "a")); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		write(name, b.Bytes())
		if w, err := Open(filepath.Join(dir, name)); err != nil || w.Jobs.Len() != 1 {
			t.Errorf("%s: %v", name, err)
		}
		write("cut", b.Bytes()[:b.Len()-12])
		if _, err := Open(filepath.Join(dir, "cut")); err == nil || !strings.Contains(err.Error(), "cut: the compressed file is cut off") {
			t.Errorf("%s: cut: %v", name, err)
		}
	}
	write("cut", []byte(pbsJob("3", "1700000090", "4", "a")))
	write(".hidden", []byte("no log"))
	files, err := Files([]string{dir})
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	name, err := DetectAccounting(files[0])
	if err != nil || name != "pbs" {
		t.Fatalf("%s, %v", name, err)
	}
	read, err := AccountingReader(name)
	if err != nil {
		t.Fatal(err)
	}
	w, missing, err := Accounting(name, read, files, workload.ReadOptions{})
	if err != nil || w.Jobs.Len() != 3 || len(missing) == 0 || w.Source != "20240301.xz and 2 more" {
		t.Errorf("%+v %q, %v", w, missing, err)
	}
	if _, err := Files([]string{t.TempDir()}); err == nil {
		t.Error("an empty directory has files")
	}
	write("swf", []byte(swfJob("1", "0", "4", "1")))
	if _, err := DetectAccounting(filepath.Join(dir, "swf")); err == nil || !strings.Contains(err.Error(), "reads it as a workload without build") {
		t.Errorf("SWF: %v", err)
	}
	const other, own = "workload build --from table reads it", "reads it as a workload without build"
	for table, want := range map[string]string{"id,submit,wait_s\n1,2,3\n": other, "id,submit,run_time_s\n1,2,3\n": own} {
		path := filepath.Join(dir, "table")
		write("table", []byte(table))
		if _, err := DetectAccounting(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", table, err)
		}
		if _, _, err := Accounting(name, read, []string{path}, workload.ReadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q as records: %v", table, err)
		}
		if IsCSV(path) != (want == own) {
			t.Errorf("%q as a workload", table)
		}
	}
	if _, err := ByName("pbs"); err == nil || !strings.Contains(err.Error(), "format pbs: can only be read (want trace, swf,") {
		t.Errorf("by name: %v", err)
	}
}
