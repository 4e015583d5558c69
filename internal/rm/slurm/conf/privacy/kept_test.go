package privacy

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKept(t *testing.T) {
	dir := t.TempDir()
	files := Files{Dir: dir}
	for name, text := range map[string]string{
		"slurm.conf": "ClusterName=vale\n AccountingStoragePass = \"a b\" \nAuthAltParameters=jwt_key=/k,\\\nmore\nNodeName=n1\n" +
			"# StoragePass=old\nPriorityType=a JobCompPass=b MaxJobCount=7\n",
		"parts/all.conf": "PartitionName=main Nodes=n1\n",
		"slurmdbd.conf":  "StoragePass=secret\r\nDbdHost=h\r\n",
		"passwd":         "ann:$6$hash:1000:1000::/home/ann:/bin/sh\n",
	} {
		files.Read(filepath.Join(dir, name), []byte(text))
	}
	got, err := files.Kept()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"slurm.conf":     "ClusterName=vale\n  \n\n\nNodeName=n1\n# \nPriorityType=a  MaxJobCount=7\n",
		"parts/all.conf": "PartitionName=main Nodes=n1\n",
		"slurmdbd.conf":  "\r\nDbdHost=h\r\n",
		"passwd":         "ann:x:1000:1000::/home/ann:/bin/sh\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	files.Read(filepath.Join(dir, "large"), make([]byte, maxKept))
	if _, err := files.Kept(); !errors.Is(err, ErrNotKept) || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Errorf("large files: %v", err)
	}
	files = Files{Dir: dir}
	other := filepath.Join(t.TempDir(), "other.conf")
	files.Read(other, nil)
	if _, err := files.Kept(); !errors.Is(err, ErrNotKept) || !strings.Contains(err.Error(), other) {
		t.Errorf("a file elsewhere: %v", err)
	}
}
