package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// want compares the outcome of every job with a text. The text has a line for each job or task
// in the order of submission:
//
//	ID STATE START-END NODES
//
// Times are in seconds after the epoch; "-" stands for a time or nodes that the job never had.
// A line may end with the exit status ("exit 3", "signal 9"), "restarts N", "stopped N" (seconds
// suspended) and the reason of a refusal. Empty lines and lines with # are comments.
func (o *outcome) want(text string) {
	o.t.Helper()
	var want, got []string
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			want = append(want, line)
		}
	}
	for i := range o.list {
		got = append(got, describe(&o.list[i]))
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
		o.t.Errorf("(-want +got)\n%s\nall that was got:\n%s", diff, strings.Join(got, "\n"))
	}
}

func describe(r *run.Row) string {
	var b strings.Builder
	b.WriteString(r.Job)
	if r.Task >= 0 {
		fmt.Fprintf(&b, "_%d", r.Task)
	}
	span := "-"
	if !r.Start.IsZero() || !r.End.IsZero() {
		span = "-" + seconds(r.End)
		if !r.Start.IsZero() {
			span = seconds(r.Start) + span
		}
	}
	nodes := r.Nodes
	if nodes == "" {
		nodes = "-"
	}
	fmt.Fprintf(&b, " %s %s %s", r.State, span, nodes)
	for _, extra := range []struct {
		name string
		n    int
	}{{"exit", r.ExitCode}, {"signal", r.Signal}, {"restarts", r.Restarts}, {"stopped", int(r.Suspended / time.Second)}} {
		if extra.n != 0 {
			fmt.Fprintf(&b, " %s %d", extra.name, extra.n)
		}
	}
	if r.State == hpc.Rejected {
		b.WriteString(" " + r.Reason)
	}
	return b.String()
}

// seconds formats an instant as seconds after the epoch, without a fraction of zero.
func seconds(t hpc.Time) string { return fmt.Sprintf("%g", since(t)) }

// drained fails the test if the replay gave up jobs or if warnings affect the result.
func (o *outcome) drained() {
	o.t.Helper()
	if len(o.result.Undrained) > 0 {
		o.t.Errorf("given up as pending: %v", o.result.Undrained)
	}
	for _, w := range o.warnings {
		o.t.Errorf("warning %s: %s", w.Code, w.Text)
	}
}

// on pins a job to nodes.
func on(list string) func(*hpc.Job) { return func(j *hpc.Job) { j.NodeList = list } }

// with returns a change of a job that makes all the given changes.
func with(changes ...func(*hpc.Job)) func(*hpc.Job) {
	return func(j *hpc.Job) {
		for _, c := range changes {
			c(j)
		}
	}
}

func tasks(n int) func(*hpc.Job)           { return func(j *hpc.Job) { j.Tasks = n } }
func limit(d time.Duration) func(*hpc.Job) { return func(j *hpc.Job) { j.TimeLimit = d } }
func dependsOn(d string) func(*hpc.Job)    { return func(j *hpc.Job) { j.Dependency = d } }
func cancelledAfter(seconds int) func(*hpc.Job) {
	return func(j *hpc.Job) { j.CancelAfter = time.Duration(seconds) * time.Second }
}
func forever(j *hpc.Job) { j.RunTime = hpc.Unlimited }
func noRequeue(j *hpc.Job) {
	no := false
	j.Requeue = &no
}

// TestLargeJob: a job on thousands of nodes gets all of them at its start and frees all at its
// end.
func TestLargeJob(t *testing.T) { eachSlurmIfLong(t, testLargeJob) }

func testLargeJob(t *testing.T, slurm *install.Installation) {
	const size = 5000
	s := scenario{slurm: slurm, cluster: writeCluster(t, manyNodes(size))}
	epilog, err := nodes.ParseDelay("uniform:1s,5s")
	if err != nil {
		t.Fatal(err)
	}
	s.delays.Epilog = epilog
	all := func(j *hpc.Job) { j.MinNodes, j.Tasks, j.Exclusive = size, size, "node" }
	s.workload.Jobs = workload.JobsOf(job("first", 10, 100, all), job("second", 20, 100, all))
	o := s.play(t)
	first, second := o.rows["first"], o.rows["second"]
	for _, row := range []run.Row{first, second} {
		if row.State != hpc.Completed || row.NodeCount != size || row.End.Sub(row.Start) != 100*time.Second {
			t.Errorf("%s: %s on %d nodes for %v, want COMPLETED on %d for 100 s", row.Job, row.State, row.NodeCount, row.End.Sub(row.Start), size)
		}
	}
	if wait := second.Start.Sub(first.End); wait < 0 || wait > 10*time.Second {
		t.Errorf("the second job starts %v after the end of the first, want at most 10 s", wait)
	}
}

// TestLongRecords: a record that is too long for the buffer of jobcomp/filetxt lacks its last
// fields. The engine asks slurmctld for them.
func TestLongRecords(t *testing.T) { eachSlurmIfLong(t, testLongRecords) }

func testLongRecords(t *testing.T, slurm *install.Installation) {
	long := strings.Repeat("x", 57)
	files := map[string]string{"slurm.conf": fmt.Sprintf(`ClusterName=long
SlurmctldHost=head
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/basic
JobRequeue=1
AccountingStorageType=accounting_storage/none
NodeName=n[1-300] Sockets=1 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=1000
NodeName=%s[100-139] Sockets=1 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=1000
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60
`, long), "users": "ann:21001:staff:21000\n"}
	s := scenario{slurm: slurm, cluster: writeCluster(t, files)}
	numbers := func(first int) (list string) {
		for i := first; i <= 300; i += 2 {
			list += fmt.Sprintf(",%d", i)
		}
		return "n[" + list[1:] + "]"
	}
	odd, even := numbers(1), numbers(2)
	half := func(list string) func(*hpc.Job) {
		return func(j *hpc.Job) { j.NodeList, j.Tasks, j.MinNodes = list, 150, 150 }
	}
	s.workload.Jobs = workload.JobsOf(
		job("odd", 10, 60, with(half(odd), func(j *hpc.Job) { j.ExitCode = 4 })),
		job("even", 10, 0, with(half(even), limit(time.Minute), forever)),
		job("names", 10, 30, func(j *hpc.Job) {
			j.NodeList, j.Tasks, j.MinNodes = fmt.Sprintf("%s[100-139]", long), 40, 40
			j.Name = strings.Repeat("n", 900)
		}),
		job("down", 1000, 300, with(half(odd))),
		job("cancelled", 1000, 300, with(half(even), cancelledAfter(50))),
		job("pending", 1001, 300, with(half(even), cancelledAfter(10), func(j *hpc.Job) { j.Name = strings.Repeat("p", 990) })),
	)
	s.workload.NodeEvents = []hpc.NodeEvent{
		{At: after(1100), Nodes: "n17", State: "down"},
		{At: after(1200), Nodes: "n17", State: "resume"},
	}
	o := s.play(t)
	o.want(strings.NewReplacer("ODD", odd, "EVEN", even, "LONG", long).Replace(`
		odd       FAILED    11-71 ODD exit 4
		even      TIMEOUT   11-90 EVEN
		names     COMPLETED 11-41 LONG[100-139]
		down      COMPLETED 1230-1530 ODD restarts 1
		cancelled CANCELLED 1001-1050 EVEN
		pending   CANCELLED -1011 -
	`))
	o.drained()
}

// TestEpilogSchedulesAtOnce: at a site with an epilog, slurmctld schedules when the epilog
// ends. Without one, it schedules within batch_sched_delay.
func TestEpilogSchedulesAtOnce(t *testing.T) { eachSlurm(t, testEpilogSchedulesAtOnce) }

func testEpilogSchedulesAtOnce(t *testing.T, slurm *install.Installation) {
	start := func(edit string) float64 {
		s := scenario{slurm: slurm, cluster: writeCluster(t, clusterFiles(t, "KillWait=30", "KillWait=30\n"+edit))}
		s.workload.Jobs = workload.JobsOf(job("first", 10, 60, with(on("c1"), tasks(4))), job("second", 11, 10, with(on("c1"), tasks(4))))
		o := s.play(t)
		o.drained()
		return o.rows["second"].Start.Sub(o.rows["first"].End).Seconds()
	}
	with, without := start("Epilog=/site/epilog"), start("# no epilog")
	if with != 0 || without < 1 || without > 3 {
		t.Errorf("the second job starts %g s after the first with an epilog, %g s without", with, without)
	}
}
