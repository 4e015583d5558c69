package example

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/workload"
)

// hashes are the hashes of all files that WriteExample writes, by seed. They change only with the
// generator.
var hashes = map[uint64]string{
	1: "f5424f5f64c43a65",
	2: "13c2f82375500b2e",
}

func TestSameSeedSameBytes(t *testing.T) {
	for seed, want := range hashes {
		dir := filepath.Join(t.TempDir(), "example")
		if err := WriteExample(dir, seed); err != nil {
			t.Fatal(err)
		}
		if got := hashTree(t, dir); got != want {
			t.Errorf("seed %d: %s, want %s", seed, got, want)
		}
		if err := WriteExample(dir, seed); err == nil || !strings.Contains(err.Error(), "is not empty") {
			t.Errorf("writing twice: %v", err)
		}
	}
}

func hashTree(t *testing.T, dir string) string {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		fmt.Fprintf(sum, "%s %d\n%s", filepath.ToSlash(name), len(text), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))[:16]
}

// TestDay checks the properties of the day for several seeds.
func TestDay(t *testing.T) {
	for seed := range uint64(5) {
		w, files := Example(seed)
		users, err := workload.ParseUsers(strings.NewReader(files["users"]), "users")
		if err != nil || len(users) != 24 {
			t.Fatalf("%d users, %v; want 24", len(users), err)
		}
		cluster := workload.Cluster{
			Partitions: map[string]int{"batch": cpuNodes, "gpu": gpuNodes, "debug": 4},
			Users:      make(map[string]bool), Nodes: cpuNodes + gpuNodes, MaxArraySize: 1001,
		}
		for _, u := range users {
			cluster.Users[u.Name] = true
		}
		for _, p := range workload.Validate(w, cluster) {
			t.Errorf("seed %d: %s", seed, p)
		}
		checkKinds(t, seed, w)
		checkLoad(t, seed, w)
	}
}

func checkKinds(t *testing.T, seed uint64, w *workload.Workload) {
	info := workload.NewInfo(w)
	for what, n := range map[string]int{
		"timeouts": info.UntilLimit, "failures": info.Failing, "cancels": info.WithCancellation,
		"arrays": info.Arrays, "dependencies": info.WithDependency, "exclusive": info.Exclusive,
	} {
		if n < 5 || n > 150 {
			t.Errorf("seed %d: %d %s", seed, n, what)
		}
	}
	if info.Jobs != jobCount || info.WithGPUs < 80 || info.WindowS > 86400 || len(info.Users) < 20 || len(info.QOS) != 3 {
		t.Errorf("seed %d: %+v", seed, info)
	}
	night, noon := 0, 0
	for _, job := range w.Jobs.All() {
		switch hour := job.Submit.Std().Hour(); {
		case hour < 6:
			night++
		case hour >= 9 && hour < 15:
			noon++
		}
	}
	if noon < 3*night {
		t.Errorf("seed %d: %d submissions at night, %d around noon", seed, night, noon)
	}
}

// checkLoad adds up the run times of the jobs, which must fill 85 to 90 per cent of the
// CPU nodes' day, and 83 to 90 per cent of the GPUs' day.
func checkLoad(t *testing.T, seed uint64, w *workload.Workload) {
	cpu, gpu := loads(&w.Jobs)
	t.Logf("seed %d: load %.3f of the CPU nodes, %.3f of the GPUs", seed, cpu, gpu)
	if cpu < 0.85 || cpu > 0.90 || gpu < 0.83 || gpu > 0.90 {
		t.Errorf("seed %d: load %.3f of the CPU nodes, %.3f of the GPUs", seed, cpu, gpu)
	}
}

// TestAccounts checks for the mistakes that sacctmgr would report: a user without an
// account, an account before its parent, more than one word to an option.
func TestAccounts(t *testing.T) {
	_, files := Example(1)
	known := map[string]bool{"root": true}
	users := 0
	if strings.Contains(files["accounts.sacctmgr"], "#") {
		t.Error("a comment makes sacctmgr exit with 1")
	}
	for line := range strings.Lines(files["accounts.sacctmgr"]) {
		fields := strings.Fields(line)
		options := map[string]string{}
		for _, f := range fields[min(2, len(fields)):] {
			name, value, _ := strings.Cut(f, "=")
			options[name] = value
		}
		switch strings.Join(fields[:2], " ") {
		case "add account":
			if parent := options["parent"]; parent != "" && !known[parent] {
				t.Errorf("%s: parent %s does not exist yet", line, parent)
			}
			known[options["name"]] = true
		case "add user":
			users++
			if !known[options["account"]] {
				t.Errorf("%s: account does not exist", line)
			}
		}
	}
	if users != 24 {
		t.Errorf("%d users, want 24", users)
	}
	got := make([]string, 0, len(files))
	for _, name := range []string{"slurm.conf", "nodes.conf", "gres.conf", "topology.conf", "accounts.sacctmgr", "users"} {
		if files[name] != "" {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff(6, len(got)); diff != "" || len(files) != 6 {
		t.Errorf("files %v", got)
	}
}
