package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// want compares what became of every job with a text: a line for each job or task in
// the order of submission,
//
//	ID STATE START-END NODES
//
// with times in seconds after the epoch, "-" where the job never had any, and where it
// applies the exit status ("exit 3", "signal 9"), "restarts N", "stopped N" (seconds
// suspended) and the reason of a refusal. Empty lines and those with # are for readers.
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

// seconds is an instant as the seconds after the epoch, without a fraction where there
// is none.
func seconds(t hpc.Time) string { return fmt.Sprintf("%g", since(t)) }

// drained fails the test if jobs were given up or warnings affect the result.
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

// with joins changes of a job.
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

// The single life of a job: how it ends, and what its user may do about it.
func TestLife(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t)), drainLimit: 2 * time.Hour}
	s.workload.Jobs = workload.JobsOf(
		// Run times, to the second.
		job("minute", 10, 60, on("c1")),
		job("instant", 10, 0, on("c1")),
		job("fails", 10, 20, with(on("c1"), func(j *hpc.Job) { j.ExitCode = 3 })),
		job("overdue", 10, 0, with(on("c2"), limit(time.Minute), forever)),

		// Cancelled by their user: running, pending, and gone already.
		job("stopped", 10, 500, with(on("c3"), tasks(4), cancelledAfter(90))),
		job("impatient", 11, 60, with(on("c3"), tasks(4), cancelledAfter(30))),
		job("late", 11, 5, with(on("c2"), cancelledAfter(300))),

		// Arrays.
		job("array", 10, 30, with(on("c4"), func(j *hpc.Job) {
			j.Array, j.TaskRunTimes = "1-5%2", map[int]time.Duration{1: 90 * time.Second, 3: 10 * time.Second}
		})),
		job("broken", 400, 50, with(on("c4"), cancelledAfter(70), func(j *hpc.Job) { j.Array = "0-7:2%1" })),

		// Begin and deadline.
		job("tomorrow", 400, 10, with(on("c1"), func(j *hpc.Job) { j.Begin = 5 * time.Minute })),
		job("holder", 400, 600, with(on("c2"), tasks(4))),
		job("hopeless", 401, 60, with(on("c2"), limit(time.Minute), func(j *hpc.Job) { j.Deadline = 5 * time.Minute })),

		// Nobody releases it.
		job("held", 400, 60, func(j *hpc.Job) { j.Hold = true }),
	)
	o := s.play(t)
	o.want(`
		# The scheduler runs a second after a submission. A job of no length still has its nodes.
		minute    COMPLETED 11-71 c1
		instant   COMPLETED 11-11 c1
		fails     FAILED    11-31 c1 exit 3
		overdue   TIMEOUT   11-90 c2       # slurmctld looks at limits every 30 s
		stopped   CANCELLED 11-100 c3
		array_1   COMPLETED 11-101 c4      # never more than two tasks at a time
		array_2   COMPLETED 11-41 c4
		array_3   COMPLETED 42-52 c4
		array_4   COMPLETED 53-83 c4
		array_5   COMPLETED 84-114 c4
		impatient CANCELLED -41 -
		late      COMPLETED 14-19 c2
		broken_0  COMPLETED 401-451 c4
		broken_2  CANCELLED 452-470 c4
		broken_4  CANCELLED -470 -         # one record for the rest of the array
		broken_6  CANCELLED -470 -
		tomorrow  COMPLETED 720-730 c1     # eligible at 700, found by the backfill cycle
		holder    COMPLETED 401-1001 c2
		held      PENDING   - -
		hopeless  DEADLINE  -660 - signal 1 # slurmctld's own status of such a job
	`)
	if diff := cmp.Diff([]string{"held"}, o.result.Undrained); diff != "" {
		t.Errorf("given up as pending (-want +got)\n%s", diff)
	}
	if got, want := o.result.Now.Sub(after(1001)).Round(time.Second), 2*time.Hour; got != want {
		t.Errorf("given up %v after the last end, want %v", got, want)
	}
}

// Dependencies, under kill_invalid_depend.
func TestDependencies(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t)), drainLimit: 2 * time.Hour}
	s.workload.Jobs = workload.JobsOf(
		job("good", 10, 60, on("c1")),
		job("bad", 10, 90, with(on("c2"), func(j *hpc.Job) { j.ExitCode = 1 })),
		job("ok", 20, 10, dependsOn("afterok:good")),
		job("never", 20, 10, dependsOn("afterok:bad")),
		job("any", 20, 10, dependsOn("afterany:bad")),
		job("notok", 20, 10, dependsOn("afternotok:bad")),
		job("unneeded", 20, 10, dependsOn("afternotok:good")),
		job("both", 20, 10, dependsOn("afterany:good:bad")),
		job("either", 20, 10, dependsOn("afterok:good?afterok:bad")),
		job("delayed", 20, 10, dependsOn("after:good+2")),
		job("chain", 20, 10, dependsOn("afterany:delayed")),
		job("single1", 20, 40, func(j *hpc.Job) { j.Name = "one" }),
		job("single2", 20, 10, with(dependsOn("singleton"), func(j *hpc.Job) { j.Name = "one" })),
		job("array", 300, 30, func(j *hpc.Job) {
			j.Array, j.TaskRunTimes = "1-3", map[int]time.Duration{2: 100 * time.Second}
		}),
		job("corr", 300, 10, with(dependsOn("aftercorr:array"), func(j *hpc.Job) { j.Array = "1-3" })),
		job("task", 300, 10, dependsOn("afterok:array_1")),
		job("all", 300, 10, dependsOn("afterok:array")),
		job("missing", 300, 10, dependsOn("afterok:nobody")),
		job("mixed", 500, 30, func(j *hpc.Job) { j.Array, j.TaskExitCodes = "1-2", map[int]int{2: 7} }),
		job("well", 500, 10, dependsOn("afterok:mixed_1")),
		job("badly", 500, 10, dependsOn("afternotok:mixed_2")),
	)
	o := s.play(t)
	o.want(`
		good     COMPLETED 11-71 c1
		bad      FAILED    11-101 c2 exit 1
		ok       COMPLETED 72-82 c1
		never    CANCELLED -102 -        # DependencyParameters=kill_invalid_depend
		any      COMPLETED 102-112 c1
		notok    COMPLETED 102-112 c1
		unneeded CANCELLED -72 -
		both     COMPLETED 102-112 c1
		either   COMPLETED 72-82 c1
		delayed  COMPLETED 131-141 c1    # two minutes after the start of good
		chain    COMPLETED 142-152 c1    # on a job that was submitted at the same instant
		single1  COMPLETED 21-61 c1
		single2  COMPLETED 63-73 c1
		array_1  COMPLETED 301-331 c1
		array_2  COMPLETED 301-401 c1
		array_3  COMPLETED 301-331 c1
		corr_1   COMPLETED 332-342 c1    # each on its own task of the other array
		corr_2   COMPLETED 402-412 c1
		corr_3   COMPLETED 332-342 c1
		task     COMPLETED 332-342 c1
		all      COMPLETED 402-412 c1
		missing  REJECTED - - dependency afterok:nobody on job nobody, which has not been submitted
		mixed_1  COMPLETED 501-531 c1
		mixed_2  FAILED    501-531 c1 exit 7
		well     COMPLETED 532-542 c1
		badly    COMPLETED 532-542 c1
	`)
	o.drained()
}

// What a job may ask for.
func TestRequests(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t)), drainLimit: 2 * time.Hour}
	memory := func(mib int64) func(*hpc.Job) { return func(j *hpc.Job) { j.MemPerNode = mib } }
	gres := func(g string) func(*hpc.Job) { return func(j *hpc.Job) { j.GRES = g } }
	license := func(j *hpc.Job) { j.Licenses = "solver:1" }
	s.workload.Jobs = workload.JobsOf(
		job("mem1", 10, 60, with(on("c1"), memory(4000))),
		job("mem2", 10, 60, with(on("c1"), memory(4000))),
		job("mem3", 10, 60, with(on("c1"), memory(4000))),

		job("lic1", 10, 60, with(on("c2"), license)),
		job("lic2", 10, 60, with(on("c3"), license)),
		job("lic3", 10, 60, with(on("c4"), license)),

		job("gpu1", 500, 60, gres("gpu:1")),
		job("gpu2", 500, 60, gres("gpu:1")),
		job("gpu3", 500, 60, gres("gpu:1")),
		job("gpu4", 500, 60, gres("gpu:1")),
		job("gpu5", 500, 60, gres("gpu:1")),
		job("v100", 800, 60, gres("gpu:v100:2")),
		job("v100again", 800, 60, gres("gpu:v100:1")),
		job("gpus", 800, 60, func(j *hpc.Job) { j.GPUs, j.MinNodes, j.Tasks = "4", 2, 2 }),

		job("feature", 1500, 60, func(j *hpc.Job) { j.Constraint = "accelerated" }),
		job("exclusive", 1500, 60, with(on("c2"), func(j *hpc.Job) { j.Exclusive = "node" })),
		job("beside", 1501, 60, on("c2")),
		job("wide", 1500, 60, func(j *hpc.Job) { j.NodeList, j.MinNodes, j.Tasks = "c[1,3-4]", 3, 12 }),

		job("partition", 1500, 60, func(j *hpc.Job) { j.Partition = "nowhere" }),
		job("toomany", 1500, 60, func(j *hpc.Job) { j.MinNodes, j.Tasks = 7, 7 }),
		job("nofeature", 1500, 60, func(j *hpc.Job) { j.Constraint = "quantum" }),
		job("nomemory", 1500, 60, memory(9000)),
		job("nolicense", 1500, 60, func(j *hpc.Job) { j.Licenses = "other:1" }),
		job("nogres", 1500, 60, gres("gpu:h100:1")),
	)
	o := s.play(t)
	o.want(`
		mem1      COMPLETED 11-71 c1
		mem2      COMPLETED 11-71 c1
		mem3      COMPLETED 72-132 c1     # the node's memory is taken, not its cores
		lic1      COMPLETED 11-71 c2
		lic2      COMPLETED 11-71 c3
		lic3      COMPLETED 72-132 c4     # two licenses
		gpu1      COMPLETED 501-561 g1
		gpu2      COMPLETED 501-561 g1
		gpu3      COMPLETED 501-561 g2
		gpu4      COMPLETED 501-561 g2
		gpu5      COMPLETED 562-622 g1    # four GPUs in all
		v100      COMPLETED 801-861 g2
		v100again COMPLETED 862-922 g2
		gpus      COMPLETED 923-983 g[1-2]
		feature   COMPLETED 1501-1561 g1
		exclusive COMPLETED 1501-1561 c2
		wide      COMPLETED 1501-1561 c[1,3-4]
		partition REJECTED - - a submission was refused: invalid partition specified: nowhere: ESLURM_INVALID_PARTITION_NAME: there is no such partition
		toomany   PENDING - -             # EnforcePartLimits=NO: Slurm takes it and never starts it
		nofeature REJECTED - - a submission was refused: ESLURM_INVALID_FEATURE: a feature does not exist or the constraint is malformed
		nomemory  REJECTED - - a submission was refused: Memory specification can not be satisfied: ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE: no set of nodes can ever meet the request
		nolicense REJECTED - - a submission was refused: ESLURM_INVALID_LICENSES: a license does not exist or there are too few
		nogres    REJECTED - - a submission was refused: ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE: no set of nodes can ever meet the request
		beside    COMPLETED 1562-1622 c2
	`)
	if diff := cmp.Diff([]string{"toomany"}, o.result.Undrained); diff != "" {
		t.Errorf("given up as pending (-want +got)\n%s", diff)
	}
}

// Nodes that fail, drain and come back, and reservations.
func TestMachine(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t)), drainLimit: 2 * time.Hour}
	s.workload.NodeEvents = []hpc.NodeEvent{
		{At: after(100), Nodes: "c[1-2]", State: "down", Reason: "power"},
		{At: after(300), Nodes: "c[1-2]", State: "resume"},
		{At: after(1000), Nodes: "c3", State: "drain", Reason: "disk"},
		{At: after(1500), Nodes: "c3", State: "resume"},
		{At: after(1600), Nodes: "nosuch", State: "down"},
	}
	reservation := hpc.Reservation{Name: "course", Start: after(3300), Duration: 10 * time.Minute, Nodes: "c1", Users: []string{"ann"}}
	s.workload.Reservations = []hpc.ReservationEvent{
		{At: after(3000), Action: "create", Reservation: reservation},
		{At: after(3500), Action: "delete", Reservation: hpc.Reservation{Name: "nosuch"}},
	}
	ben := func(j *hpc.Job) { j.User = "ben" }
	s.workload.Jobs = workload.JobsOf(
		job("again", 10, 200, on("c1")),
		job("lost", 10, 200, with(on("c2"), noRequeue)),
		job("both", 20, 200, func(j *hpc.Job) { j.NodeList, j.MinNodes, j.Tasks = "c[2-3]", 2, 2 }),
		job("draining", 990, 60, on("c3")),
		job("drained", 1010, 60, on("c3")),
		job("pupil", 3010, 60, with(on("c1"), limit(5*time.Minute), func(j *hpc.Job) { j.Reservation = "course" })),
		job("other", 3020, 60, with(on("c1"), ben)),
		job("short", 3020, 60, with(on("c1"), ben, limit(2*time.Minute))),
		job("intruder", 3400, 60, with(ben, func(j *hpc.Job) { j.Reservation = "course" })),
	)
	o := s.play(t)
	o.want(`
		again    COMPLETED 300-500 c1 restarts 1      # waits for its node
		lost     NODE_FAIL 11-100 c2
		both     COMPLETED 300-500 c[2-3] restarts 1
		draining COMPLETED 991-1051 c3                # runs on
		drained  COMPLETED 1500-1560 c3
		pupil    COMPLETED 3300-3360 c1               # starts with the reservation
		other    COMPLETED 3900-3960 c1               # might run into it, so it waits for its end
		short    COMPLETED 3030-3090 c1               # would be over before
		intruder REJECTED - - a submission was refused: ESLURM_RESERVATION_ACCESS: the user may not use the reservation
	`)
	if len(o.result.Undrained) > 0 {
		t.Errorf("given up as pending: %v", o.result.Undrained)
	}
	var happened []string
	for _, ev := range o.events {
		if ev.Kind == rm.NodeState || ev.Kind == rm.Reserved {
			happened = append(happened, fmt.Sprintf("%s %s", seconds(hpc.Unix(ev.At.UnixSeconds())), ev.Reason))
		}
	}
	if diff := cmp.Diff([]string{
		"100 c[1-2] down: power",
		"300 c[1-2] resume",
		"1000 c3 drain: disk",
		"1500 c3 resume",
		"1600 nosuch down: workload: down: refused: ESLURM_INVALID_NODE_NAME: there is no such node",
		"3000 create course",
		"3500 delete nosuch: refused: ESLURM_RESERVATION_INVALID: the reservation does not exist or is malformed",
	}, happened); diff != "" {
		t.Errorf("events of the machine (-want +got)\n%s", diff)
	}
	for _, w := range o.warnings {
		if w.Code != "event-refused" || !w.AffectsResult {
			t.Errorf("warning %+v", w)
		}
	}
	if len(o.warnings) != 2 {
		t.Errorf("%d warnings, want one for each refusal", len(o.warnings))
	}
}

// JobRequeue decides what becomes of a job that loses a node and does not say itself.
func TestJobRequeue(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t, "JobRequeue=1", "JobRequeue=0"))}
	s.workload.NodeEvents = []hpc.NodeEvent{
		{At: after(100), Nodes: "c[1-2]", State: "fail"},
		{At: after(300), Nodes: "c[1-2]", State: "resume"},
	}
	s.workload.Jobs = workload.JobsOf(
		job("lost", 10, 200, on("c1")),
		job("again", 10, 200, with(on("c2"), func(j *hpc.Job) { j.Requeue = new(true) })),
	)
	s.play(t).want(`
		lost  NODE_FAIL 11-100 c1
		again COMPLETED 300-500 c2 restarts 1
	`)
}

// A job on thousands of nodes has all of them at its start and gives all back at its end.
func TestLargeJob(t *testing.T) {
	const size = 5000
	s := scenario{cluster: writeCluster(t, manyNodes(size))}
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

// Preemption by the tier of partitions.
func TestPreemption(t *testing.T) {
	for mode, want := range map[string]string{
		"REQUEUE": `
			victim    COMPLETED 223-523 c1 restarts 1
			bystander COMPLETED 11-311 c2
			boss      COMPLETED 101-161 c1
			next      COMPLETED 162-222 c1`,
		"CANCEL": `
			victim    PREEMPTED 11-101 c1
			bystander COMPLETED 11-311 c2
			boss      COMPLETED 101-161 c1
			next      COMPLETED 162-222 c1`,
		// Stopped for as long as the others run: 300 s of work between 11 and 431.
		"SUSPEND,GANG": `
			victim    COMPLETED 11-431 c1 stopped 120
			bystander COMPLETED 11-311 c2
			boss      COMPLETED 101-161 c1
			next      COMPLETED 162-222 c1`,
	} {
		t.Run(mode, func(t *testing.T) {
			s := scenario{cluster: writeCluster(t, clusterFiles(t,
				"PreemptType=preempt/none", "PreemptType=preempt/partition_prio\nPreemptMode="+mode))}
			urgent := func(j *hpc.Job) { j.Partition = "urgent" }
			s.workload.Jobs = workload.JobsOf(
				job("victim", 10, 300, with(on("c1"), tasks(4))),
				job("bystander", 10, 300, with(on("c2"), tasks(4))),
				job("boss", 100, 60, with(on("c1"), tasks(4), urgent)),
				job("next", 110, 60, with(on("c1"), tasks(4), urgent)),
			)
			o := s.play(t)
			o.want(want)
			o.drained()
		})
	}
}

// Delays on the node side: the same seed gives the same run, a launch delay makes a
// job longer, a prolog keeps its script back, and nodes are busy in an epilog.
func TestDelays(t *testing.T) {
	delay := func(spec string) nodes.Delay {
		d, err := nodes.ParseDelay(spec)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	s := scenario{
		cluster: writeCluster(t, clusterFiles(t, "JobRequeue=1", "JobRequeue=1\nPrologFlags=Alloc")),
		delays:  nodes.Delays{Launch: delay("uniform:2s,20s"), Prolog: delay("5s"), Epilog: delay("30s"), Seed: 7},
	}
	for i := range 3 {
		s.workload.Jobs.Append(job(fmt.Sprintf("j%d", i), 10, 60, with(on("c1"), tasks(4))))
	}
	first := s.play(t)
	first.want(`
		j0 COMPLETED 11-84 c1
		j1 COMPLETED 114-190 c1  # after the epilog of 30 s
		j2 COMPLETED 220-297 c1
	`)
	first.drained()
	second := s.play(t)
	var a, b []string
	for i := range first.list {
		a, b = append(a, describe(&first.list[i])), append(b, describe(&second.list[i]))
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("two runs with one seed (-first +second)\n%s", diff)
	}
}

// A record of jobcomp/filetxt that is too long for its buffer lacks its end; what is
// missing comes from slurmctld.
func TestLongRecords(t *testing.T) {
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
	s := scenario{cluster: writeCluster(t, files)}
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

// Where the site has an epilog, slurmctld schedules the moment that it is over; where it
// has none, within batch_sched_delay.
func TestEpilogSchedulesAtOnce(t *testing.T) {
	start := func(edit string) float64 {
		s := scenario{cluster: writeCluster(t, clusterFiles(t, "KillWait=30", "KillWait=30\n"+edit))}
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
