package acceptance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/workload"
)

// options are the options of random requests. A request has at most one option of each line, and of
// most lines no option.
var options = [][]string{
	{"--uid=cem", "--uid=sam", "--uid=pam", "--uid=eve", "-A optics", "-A chemistry", "-A physics"},
	{"-p all", "-p narrow", "-p wide", "-p few", "-p memnode", "-p memcpu", "-p staff", "-p allowed", "-p denied",
		"-p highonly", "-p nothigh", "-p limited", "-p short", "-p short,main", "-p moved", "-p inactive", "-p nowhere"},
	{"-q high", "-q strict", "-q loose", "-q free", "-q queue", "-q minutes", "-q notforall"},
	{"-t 5", "-t 31", "-t 45", "-t 61", "-t 3:00:00", "-t UNLIMITED"},
	{"--time-min=1", "--time-min=40"},
	{"-N 1", "-N 2", "-N 3", "-N 4", "-N 5", "-N 2-4", "-N 1-9"},
	{"-n 1", "-n 2", "-n 4", "-n 7", "-n 8", "-n 9", "-n 17", "-n 33", "-n 64"},
	{"-c 2", "-c 4", "-c 9", "-c 16"},
	{"--ntasks-per-node=1", "--ntasks-per-node=4", "--ntasks-per-node=9"},
	{"--mem=100", "--mem=9000", "--mem=17000", "--mem=64000", "--mem=0", "--mem-per-cpu=500", "--mem-per-cpu=2001",
		"--mem-per-cpu=5000"},
	{"--tmp=50", "--tmp=500", "--tmp=5000"},
	{"--mincpus=4", "--mincpus=9"},
	{"--gres=gpu:1", "--gres=gpu:2", "--gres=gpu:3", "--gres=gpu:a100:1"},
	{"-C intel", "-C amd", "-C intel&ib", "-C amd|ib", "-C sparc"},
	{"-w n1", "-w n[1-2]", "-w b1", "-x n1", "-x n[1-3]", "-x n[1-4]"},
	{"-L matlab:1", "-L matlab:4"},
	{"--exclusive", "--contiguous", "-s", "-O"},
	{"-a 1-3", "-a 5", "-a 1-21", "-a 99-101"},
	{"--nice=5", "--nice=-5", "--deadline=now+20minutes", "--deadline=now+2hours"},
}

func randomRequest(rng *rand.Rand) string {
	var words []string
	for _, alternatives := range options {
		if rng.IntN(5) == 0 {
			words = append(words, alternatives[rng.IntN(len(alternatives))])
		}
	}
	return strings.Join(words, " ")
}

// TestRandomRequests asks slurmctld about random requests, and compares its answers with the rules by which
// the model of slurmctld accepts jobs. RMREPLAY_CASES sets the number of requests for each release and each
// value of EnforcePartLimits; then the seed differs from run to run.
func TestRandomRequests(t *testing.T) {
	n, seed := 150, uint64(1)
	if text := os.Getenv("RMREPLAY_CASES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("RMREPLAY_CASES=%s: not a number of cases", text)
		}
		n = min(n, maxRequests/2)
		seed = rand.Uint64()
	}
	for i, named := range []string{"", "24.11", "26.05"} {
		for j, enforce := range []string{"ALL", "ANY", "NO"} {
			if n == 150 && i != j { // without RMREPLAY_CASES, one value for each release
				continue
			}
			t.Run(named+enforce, func(t *testing.T) {
				needSlurm(t, named)
				compareRandom(t, rand.New(rand.NewPCG(seed, uint64(i))), n, named, enforce)
			})
		}
	}
}

func compareRandom(t *testing.T, rng *rand.Rand, n int, named, enforce string) {
	texts := map[string]string{}
	var lines strings.Builder
	for i := range n {
		id := fmt.Sprint("r", i)
		texts[id] = randomRequest(rng)
		fmt.Fprintf(&lines, "job %s at=0 run=5 %s\n", id, texts[id])
	}
	epoch := hpc.Unix(1709596800)
	what, err := rmtest.Parse(lines.String(), epoch, "--uid=ada", "-t", "10")
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Source: "random requests", Epoch: epoch, Jobs: workload.JobsOf(what.Jobs...)}
	dir := cluster(t, "EnforcePartLimits="+enforce)
	is, want := map[string]admission.Finding{}, map[string]admission.Finding{}
	_, err = ask(t.Context(), w, Options{Cluster: dir, Slurm: named},
		func(job string, why admission.Finding) { is[job] = why })
	if err != nil {
		t.Fatal(err)
	}
	rules(t, w, dir, named).Foresee(w, func(job string, why admission.Finding) { want[job] = why })
	differ := 0
	for _, job := range w.Jobs.All() {
		a, b := is[job.ID], want[job.ID]
		// A job that waits for two reasons has the reason that slurmctld found last.
		if a.Verdict == b.Verdict && (a.Slurm == b.Slurm || a.Verdict == admission.NeverStarts) {
			continue
		}
		differ++
		t.Logf("%s: slurmctld says %q %s, the rules %q %s: %s", texts[job.ID], a.Verdict, a.Slurm, b.Verdict, b.Slurm, b.Text)
	}
	if len(is) < n/4 || len(is) > n*19/20 {
		t.Errorf("%d of %d random requests are refused or never start: the test has little to compare", len(is), n)
	}
	if differ > max(1, n/200) { // docs/LIMITATIONS.md names the kinds of these differences
		t.Errorf("%d of %d random requests are answered otherwise than the rules say", differ, n)
	}
}
