// Package recorded compares fair-share, priorities and limits of the model with what real
// slurmctlds did. Each file in testdata is a case: a cluster, a workload, and for each release a
// record of the events in slurmctld's log and of scontrol's output. The test repeats the events in
// the model and compares every number.
//
// To record the cases again, run make build, and then as root:
//
//	go test ./internal/rm/slurmmodel/recorded -update
package recorded

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var (
	update   = flag.Bool("update", false, "replay the cases on real Slurm and rewrite the records in testdata")
	cases    = flag.String("cases", "testdata", "the directory of the cases")
	releases = flag.String("releases", "22.05,24.11,26.05", "the releases of the records")
	program  = flag.String("rmreplay", "../../../../bin/rmreplay", "the program that replays")
)

func TestRecorded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(*cases, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			c, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				rewrite(t, c, file)
			}
			for _, f := range c.Files {
				if release, isRecord := strings.CutPrefix(f.Name, "record/"); isRecord {
					t.Run(release, func(t *testing.T) { compare(t, c, release, string(f.Data)) })
				}
			}
		})
	}
}

// rewrite records a case again for all releases.
func rewrite(t *testing.T, c *txtar.Archive, file string) {
	isRecord := func(f txtar.File) bool { return strings.HasPrefix(f.Name, "record/") }
	inputs := *c
	inputs.Files = slices.DeleteFunc(slices.Clone(c.Files), isRecord)
	out := inputs
	for release := range strings.SplitSeq(*releases, ",") {
		out.Files = append(out.Files, txtar.File{Name: "record/" + release, Data: record(t, &inputs, *program, release)})
	}
	c.Files = out.Files
	if err := os.WriteFile(file, txtar.Format(&out), 0o644); err != nil {
		t.Fatal(err)
	}
}

// file returns a file of a case.
func file(c *txtar.Archive, name string) string {
	for _, f := range c.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}
