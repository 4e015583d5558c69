package slurm

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/workload"
)

// TestRepeat plays one workload several times. Each time every job has the same nodes and times,
// and slurmdbd has the same records, byte for byte. In the workload arrays and jobs of several
// nodes are submitted at one instant, and end at one instant. The jobs start in the cycles in which
// slurmctld computes priorities and asks slurmdbd for indexes of jobs.
//
// REPEATS=N plays the workload N times. The test finds more on a busy machine.
func TestRepeat(t *testing.T) { eachSlurm(t, testRepeat) }

func testRepeat(t *testing.T, slurm *install.Installation) {
	repeats, err := strconv.Atoi(os.Getenv("REPEATS"))
	if err != nil {
		repeats = 3
	}
	files := clusterFiles(t,
		"AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=associations\nPriorityWeightFairshare=10000\nPriorityWeightAge=2000\nPriorityWeightJobSize=1000\nPriorityMaxAge=1-0\nPriorityCalcPeriod=5",
		"PriorityType=priority/basic", "PriorityType=priority/multifactor",
		"bf_interval=30,bf_continue", "bf_interval=30,bf_resolution=60,bf_continue,default_queue_depth=200",
		"NodeName=c[1-4] Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=8000", "NodeName=c[1-36] Sockets=2 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=128000")
	files["accounts.sacctmgr"] = `add cluster tiny
add account physics fairshare=50
add account biology fairshare=50
add user ann account=physics fairshare=10
add user ben account=biology fairshare=10
`
	var jobs []*hpc.Job
	for wave := range 6 {
		at := 600 + 900*wave
		for k, seconds := range []int{60, 120, 300} {
			jobs = append(jobs, job(fmt.Sprintf("array%d-%d", wave, k), at, seconds, with(byTurns(k), func(j *hpc.Job) {
				j.Array, j.CPUsPerTask, j.TimeLimit = "1-24%8", 16, 15*time.Minute
			})))
		}
		for k := range 25 {
			size := 1 + k%4
			jobs = append(jobs, job(fmt.Sprintf("job%d-%d", wave, k), at+k%3, []int{60, 300, 600}[k%3], with(byTurns(k), func(j *hpc.Job) {
				j.MinNodes, j.MaxNodes, j.Tasks, j.TimeLimit = size, size, 32*size, 20*time.Minute
			})))
		}
	}
	var first string
	for i := range repeats {
		s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true, delays: nodes.Delays{HasEpilog: true}}
		s.workload.Jobs = workload.JobsOf(jobs...)
		o := s.play(t)
		o.drained()
		var b strings.Builder
		for j := range o.list {
			b.WriteString(describe(&o.list[j]) + "\n")
		}
		got := b.String() + o.sacct
		if i == 0 {
			first = got
		} else if diff := cmp.Diff(first, got); diff != "" {
			t.Fatalf("run %d differs from the first (-first +this):\n%s", i+1, diff)
		}
	}
}

// byTurns makes every other job ben's.
func byTurns(k int) func(*hpc.Job) {
	return func(j *hpc.Job) {
		if k%2 == 1 {
			j.User = "ben"
		}
	}
}
