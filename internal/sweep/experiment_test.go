package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkNames accepts a few options with any values.
func checkNames(_, name, value string) (bool, error) {
	switch {
	case value == "wrong":
		return false, errors.New("wrong value")
	case name == "cluster" || name == "merge" || name == "slurm":
		return true, nil
	case strings.Contains(" policy procs nodes shake seed filter share ties clock jitter time-limit-accuracy ", " "+name+" "):
		return false, nil
	}
	return false, errors.New("no such option")
}

func load(t *testing.T, text string) (*Experiment, error) {
	t.Helper()
	return loadOn(t, text, false)
}

func loadOn(t *testing.T, text string, model bool) (*Experiment, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := Load(path, model, checkNames)
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), path, "x.yaml"))
	}
	return e, err
}

const grid = `
name: both engines
workload: day.jsonl
seeds: [7, 11]
transforms:
  - name: recorded
  - {name: shaken, shake: 60}
  - {name: fixed, shake: 60, seed: 5}
sim:
  policies: [fcfs, {name: pyss, policy: easy, ties: arrivals-first}]
  machines: [procs: 64, {name: big, cluster: ../sites/alps, nodes: x1.1}]
slurm:
  clusters: [site]
  edits:
    - name: as is
    - {name: deep, SchedulerParameters: 'bf_window=1440,bf_continue'}
  options: {clock: measured=2}
`

func TestPlan(t *testing.T) {
	e, err := load(t, grid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(e, "/out")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Cells) != 2*2*3+2*3 || len(p.Runs) != 2*len(p.Cells) {
		t.Fatalf("%d cells and %d runs", len(p.Cells), len(p.Runs))
	}
	first, second := p.seedBySeed()[:len(p.Cells)], p.seedBySeed()[len(p.Cells):]
	for i, c := range p.Cells {
		if first[i] != c.Runs[0] || second[i] != c.Runs[1] {
			t.Errorf("runs %d of the two seeds are %s and %s, want those of %s", i+1, first[i].Dir, second[i].Dir, c.Name)
		}
	}
	base := filepath.Dir(e.Path)
	want := map[int]string{
		1: "simulate BASE/day.jsonl --procs=64 --policy=fcfs --seed=7 --output=/out/cells/sim_fcfs_procs64_recorded/realization-001 --quiet",
		// The seed of a run is also the seed of its transform, unless the transform has its own
		// seed.
		4:  "simulate /out/workloads/shaken.seed-11.jsonl.gz --procs=64 --policy=fcfs --seed=11 --output=/out/cells/sim_fcfs_procs64_shaken/realization-002 --quiet",
		6:  "simulate /out/workloads/fixed.jsonl.gz --procs=64 --policy=fcfs --seed=11 --output=/out/cells/sim_fcfs_procs64_fixed/realization-002 --quiet",
		19: "simulate BASE/day.jsonl --cluster=SITES/alps --nodes=x1.1 --policy=easy --ties=arrivals-first --seed=7 --output=/out/cells/sim_pyss_big_recorded/realization-001 --quiet",
		25: "replay BASE/day.jsonl --clock=measured=2 --cluster=BASE/site --seed=7 --output=/out/cells/slurm_site_as-is_recorded/realization-001 --quiet",
		31: "replay BASE/day.jsonl --clock=measured=2 --cluster=BASE/site --cluster=/out/clusters/site_deep --seed=7 --output=/out/cells/slurm_site_deep_recorded/realization-001 --quiet",
	}
	for number, line := range want {
		line = strings.NewReplacer("BASE", base, "SITES", filepath.Join(filepath.Dir(base), "sites")).Replace(line)
		r := p.Runs[number-1]
		if got := strings.Join(p.arguments(r), " "); got != line || r.Number != number {
			t.Errorf("run %d:\ngot  %s\nwant %s", r.Number, got, line)
		}
	}
	if len(p.derived) != 2+1+1 {
		t.Errorf("%d derived inputs, want those of two seeds, of the fixed one, and a cluster", len(p.derived))
	}
}

// On the model, the part for Slurm has the same edits and options as on Slurm, but other cells.
func TestPlanOnTheModel(t *testing.T) {
	e, err := loadOn(t, grid, true)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(e, "/out")
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Dir(e.Path)
	for number, want := range map[int]string{
		19: "",
		31: "simulate BASE/day.jsonl --policy=slurm --clock=measured=2 --cluster=BASE/site --cluster=/out/clusters/site_deep " +
			"--seed=7 --output=/out/cells/model_site_deep_recorded/realization-001 --quiet",
	} {
		want = strings.ReplaceAll(want, "BASE", base)
		if got := strings.Join(p.arguments(p.Runs[number-1]), " "); number > 24 && got != want ||
			strings.Contains(got, "--policy=slurm") != (number > 24) {
			t.Errorf("run %d:\ngot  %s\nwant %s", number, got, want)
		}
	}
	m := &Maker{Plan: p, Program: "/bin/rmreplay"}
	if got, err := m.script([]int{1}, ArrayOptions{}); err != nil || !strings.Contains(got, "--policy=slurm --cell=") {
		t.Errorf("the script of an array: %v\n%s", err, got)
	}
	if _, err := loadOn(t, "workload: w\nsim: {}", true); err == nil || !strings.Contains(err.Error(), "nothing to run on the model") {
		t.Errorf("without a part for Slurm: %v", err)
	}
}

// Releases vary faster than clusters. A version stays as it is, and a directory is relative to the
// experiment file. Neither has [Option.Path], because contents.ofSlurm chooses which files of a
// Slurm are hashed.
func TestReleases(t *testing.T) {
	e, err := load(t, `
workload: day.jsonl
slurm:
  clusters: [a, b]
  releases: [22.05, /opt/slurm/24.11.5, {name: ours, slurm: builds/26.05, clock: frozen}]
`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(e, "/out")
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Dir(e.Path)
	var got []string
	for _, r := range p.Runs {
		got = append(got, strings.Join(p.arguments(r), " "))
	}
	var want []string
	for _, cluster := range []string{"a", "b"} {
		for _, release := range []struct{ name, options string }{
			{"22.05", "--slurm=22.05"}, {"24.11.5", "--slurm=/opt/slurm/24.11.5"}, {"ours", "--slurm=" + base + "/builds/26.05 --clock=frozen"},
		} {
			want = append(want, fmt.Sprintf("replay %s/day.jsonl --cluster=%[1]s/%s %s --seed=1 --output=/out/cells/slurm_%[2]s_%[4]s --quiet", base, cluster, release.options, release.name))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("command lines (-want +got)\n%s", diff)
	}
	for _, r := range p.Runs {
		for _, o := range r.options {
			if o.Name == "slurm" && o.Path {
				t.Errorf("%s is an input of %s", o.Value, r.Dir)
			}
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	const head = "workload: w\n"
	for text, want := range map[string]string{
		"":                                           "x.yaml: workload is missing (want workload: PATH)",
		"workload: w":                                "x.yaml: sim and slurm are missing, so there is nothing to run (want one of them)",
		head + "slurm: {}":                           "x.yaml: slurm has no clusters (want clusters: [DIR], directories with a slurm.conf)",
		head + "seds: [1]\nsim: {}":                  `x.yaml:2: unknown field "seds"; did you mean seeds?`,
		head + "options: {procs: 3}\nsim: {}":        `x.yaml:2: unknown field "options"; did you mean sim.options or slurm.options?`,
		head + "sim:\n  edit: [a]":                   `x.yaml:3: unknown field "edit"; did you mean slurm.edits?`,
		head + "sim:\n  tires: 3":                    `x.yaml:3: unknown field "tires"`,
		head + "sim: {}\nsim: {}":                    `x.yaml:3: mapping key "sim" already defined at [2:1]`,
		head + "seeds: 0\nsim: {}":                   "x.yaml:2: seeds: 0: not a number of seeds (want a number from 1 to 100000, or a list of seeds)",
		head + "seeds: [1, 1]\nsim: {}":              "x.yaml:2: seeds: 1 occurs twice",
		head + "seeds: [a]\nsim: {}":                 "x.yaml:2: seeds: a: not a seed (want a whole number from 0)",
		head + "sim:\n  options: {proc: 3}":          "x.yaml:3: proc: no such option",
		head + "sim:\n  options:\n    procs: wrong":  "x.yaml:4: procs: wrong value",
		head + "sim:\n  options: [3]":                "x.yaml:3: not a mapping (want NAME: VALUE)",
		head + "sim:\n  options:\n    procs:":        "x.yaml:4: procs: a value is missing",
		head + "sim:\n  options:\n    procs: {a: 1}": "x.yaml:4: procs: a list or a mapping is not allowed here (want a single value)",
		head + "sim:\n  machines:\n    - big":        "x.yaml:4: machines: big: not a mapping (want NAME: VALUE)",
		head + "sim: {}\ntransforms:\n  - shake: 3":  "x.yaml:4: transforms: an entry has no name (want name: NAME)",
		head + "sim: {}\ntransforms:\n  - {name: a}\n  - {name: a, shake: 3}":                                "x.yaml:5: transforms: a: the name occurs twice",
		head + "sim: {}\ntransforms:\n  - {name: a, name: b}":                                                `x.yaml:4: mapping key "name" already defined at [4:6]`,
		head + "sim:\n  policies: ['../..']":                                                                 `x.yaml:3: policies: "../..": not a name (want letters or digits)`,
		head + "slurm:\n  clusters:\n    - {name: site, clock: frozen}":                                      "x.yaml:4: clusters: site: cluster is missing (want cluster: DIR)",
		head + "slurm:\n  clusters: [c]\n  edits:\n    - {name: a, SchedulerParameters.bf_max_jobs_test: 3}": "x.yaml:5: edits: a: SchedulerParameters has no option bf_max_jobs_test; did you mean bf_max_job_test?",
		head + "slurm:\n  clusters: [c]\n  edits:\n    - name: a\n      partiton p MaxTime: 3":               `x.yaml:6: edits: a: "partiton p MaxTime": not the name of a parameter (want KEY, KEY.OPTION, partition NAME KEY, qos NAME OPTION, account NAME OPTION, user NAME OPTION or user NAME in ACCOUNT OPTION); did you mean partition?`,
		head + "slurm:\n  clusters: [c]\n  edits:\n    - {name: a, partition p AllowQos: [a, b]}":            "x.yaml:5: edits: a: partition p AllowQos has more than one value (want one value, or a text such as a,b)",
		"workload: [":                         "x.yaml:1: sequence end token ']' not found",
		"workload: w\nsim:\n  policies: easy": "",
	} {
		_, err := load(t, text)
		if want == "" {
			if err == nil {
				t.Errorf("%q: no error", text)
			}
			continue
		}
		if got := fmt.Sprint(err); got != "reading experiment: "+want {
			t.Errorf("%q:\ngot  %s\nwant reading experiment: %s", text, got, want)
		}
	}
}

// FuzzParse checks that the cells of any experiment file stay within their directory and have
// distinct names.
func FuzzParse(f *testing.F) {
	f.Add(grid)
	f.Add("workload: w\nsim: {policies: [&a x, *a], machines: [{procs: 1, filter: [a, b]}]}")
	f.Add("workload: w\nsim:\n  options: {<<: {procs: 1}}\n")
	f.Add("workload: |\n  w\nseeds: [~]\nsim: !!map {}\n")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parse("/x/x.yaml", []byte(text), len(text)%2 == 0, checkNames)
		if err != nil || len(e.Seeds) > 100 {
			return
		}
		p, err := NewPlan(e, "/out")
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, r := range p.Runs {
			if !filepath.IsLocal(r.Dir) || !strings.HasPrefix(filepath.Clean(r.Dir), cellsDir+"/") || seen[r.Dir] {
				t.Fatalf("run in %q", r.Dir)
			}
			seen[r.Dir] = true
		}
		for _, d := range p.derived {
			if !filepath.IsLocal(d.path) {
				t.Fatalf("input in %q", d.path)
			}
		}
	})
}

// TestFingerprint checks that a run's fingerprint depends on the contents of its inputs and not
// on their paths.
func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prints := func(experiment, out, version string) []string {
		write("x.yaml", experiment)
		e, err := Load(filepath.Join(dir, "x.yaml"), false, checkNames)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlan(e, out)
		if err != nil {
			t.Fatal(err)
		}
		p.fingerprints(version)
		var list []string
		for _, r := range p.Runs {
			if r.err != nil {
				t.Fatal(r.err)
			}
			list = append(list, r.fingerprint)
		}
		return list
	}
	const text = "workload: w\nsim: {machines: [cluster: c]}\ntransforms: [{name: a}, {name: b, shake: 1}]\n"
	write("w", "jobs")
	write("v", "jobs")
	write("c/slurm.conf", "ClusterName=c")
	write("d/slurm.conf", "ClusterName=c")
	first := prints(text, "/out", "1")
	if first[0] == first[1] {
		t.Error("two transforms have one fingerprint")
	}
	elsewhere := prints("seeds: [1]\n"+strings.NewReplacer("workload: w", "workload: v", "cluster: c", "cluster: d").Replace(text), "/elsewhere", "1")
	if diff := cmp.Diff(first, elsewhere); diff != "" {
		t.Errorf("the same elsewhere: %s", diff)
	}
	differ := func(what string, now []string, which ...int) {
		t.Helper()
		for i := range first {
			if changed := now[i] != first[i]; changed != (len(which) == 0 || which[0] == i) {
				t.Errorf("%s: run %d changed: %t", what, i, changed)
			}
		}
	}
	differ("version", prints(text, "/out", "2"))
	differ("seed", prints("seeds: [2]\n"+text, "/out", "1"))
	differ("option", prints(strings.Replace(text, "shake: 1", "shake: 2", 1), "/out", "1"), 1)
	write("d/gres.conf", "")
	differ("cluster", prints(strings.Replace(text, "cluster: c", "cluster: d", 1), "/out", "1"))
	write("w", "other jobs")
	differ("workload", prints(text, "/out", "1"))

	// If the Slurm in the directory that --slurm names changes, the input changes. The directory is
	// relative to the experiment file.
	slurm := "workload: w\nslurm: {clusters: [c], releases: [ours]}\n"
	program := "ours/sbin/slurmctld"
	without := prints(slurm, "/out", "1")
	write(program, "#!/bin/sh\necho slurm 24.11.5\n")
	if err := os.Chmod(filepath.Join(dir, program), 0o755); err != nil {
		t.Fatal(err)
	}
	old := prints(slurm, "/out", "1")
	write(program, "#!/bin/sh\necho slurm 24.11.6\n")
	if now := prints(slurm, "/out", "1"); now[0] == old[0] || old[0] == without[0] || now[0] != prints(slurm, "/out", "1")[0] {
		t.Errorf("fingerprints %v without Slurm, %v with one, %v with another", without, old, now)
	}
}

func TestScript(t *testing.T) {
	p := &Plan{Experiment: &Experiment{Name: "my grid", Path: "/a b/it's.yaml"}, Dir: `/out "x"`}
	m := &Maker{Plan: p, Program: "/bin/rmreplay"}
	got, err := m.script([]int{1, 2, 3, 7, 9, 10}, ArrayOptions{Limit: 2, Sbatch: []string{"--partition=long"}})
	if err != nil {
		t.Fatal(err)
	}
	want := `#!/bin/sh
#SBATCH --job-name=rmreplay-my-grid
#SBATCH --array=1-3,7,9-10%2
#SBATCH --output="/out \"x\"/logs/array-%A_%a.log"
#SBATCH --chdir="/out \"x\""
#SBATCH --partition=long
# Written by rmreplay sweep: makes one run of the sweep in "/out \"x\"".
exec '/bin/rmreplay' sweep '/a b/it'\''s.yaml' --output='/out "x"' --cell="$SLURM_ARRAY_TASK_ID"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := m.script([]int{1}, ArrayOptions{Sbatch: []string{"--x\nrm -r /"}}); err == nil {
		t.Error("an option of two lines was taken")
	}
}

// TestRunIsBeingMade checks that a sweep leaves a run alone while another process makes this run.
func TestRunIsBeingMade(t *testing.T) {
	p := &Plan{Dir: t.TempDir()}
	cell := &Cell{Name: "cell", Dir: "cells/cell"}
	mine, other := &Run{Number: 1, Cell: cell, Dir: cell.Dir, command: "simulate"}, &Run{Number: 2, Cell: cell}
	cell.Runs = []*Run{mine}
	kept := filepath.Join(p.Dir, cell.Dir, "journal")
	if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o755), os.WriteFile(kept, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	lock, err := p.lockRun(mine)
	if err != nil {
		t.Fatal(err)
	}
	if beside, err := p.lockRun(other); err != nil {
		t.Errorf("another run: %v", err)
	} else {
		beside.Close()
	}
	var failure error
	m := &Maker{Plan: p, Program: "/bin/false", Observe: func(at Progress) { failure = at.Err }}
	if err := m.MakeRun(t.Context(), mine); !isOfRun(err) || !errors.Is(err, ErrBusy) || !errors.Is(failure, ErrBusy) {
		t.Errorf("made beside another: %v, %v, want %v", err, failure, ErrBusy)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("what is being written is gone: %v", err)
	}
	lock.Close()
	if err := m.MakeRun(t.Context(), mine); !isOfRun(err) || failure == nil || errors.Is(failure, ErrBusy) {
		t.Errorf("made alone: %v, %v, want the failure of /bin/false", err, failure)
	}
}
