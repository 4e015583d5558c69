package experiment

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// withoutLimits is a workload whose record has no time limits: a job of 100 s that completed, a job
// that failed after 90 s, a job that had reached a limit, and a job of 10 s.
func withoutLimits() *workload.Workload {
	w := &workload.Workload{Source: "no limits", Epoch: hpc.Unix(1709596800)}
	for i, j := range []struct {
		seconds int
		state   hpc.State
	}{{100, hpc.Completed}, {90, hpc.Failed}, {80, hpc.TimedOut}, {10, hpc.Completed}} {
		submit := w.Epoch.Add(time.Duration(i) * time.Second)
		ran := time.Duration(j.seconds) * time.Second
		w.Jobs.Append(&hpc.Job{
			ID: string(rune('a' + i)), Submit: submit, Request: hpc.Request{User: "ada", Tasks: 1}, Behaviour: hpc.Behaviour{RunTime: ran},
			Recorded: &hpc.Recorded{Start: submit, End: submit.Add(ran), State: j.state},
		})
	}
	return w
}

// A run on slower nodes says how many jobs reach their limit because of this.
func TestSlowedToLimit(t *testing.T) {
	w := withoutLimits()
	var jobs []*hpc.Job
	for _, j := range w.Jobs.All() {
		own := *j
		own.TimeLimit = 2 * time.Minute
		jobs = append(jobs, &own)
	}
	jobs[1].RunTime = 3 * time.Minute // reaches its limit without slower nodes, too
	w.Jobs = workload.JobsOf(jobs...)
	for speed, want := range map[float64]string{1: "", 0.5: "2 jobs were ended at the time limit, because slower nodes (--perf)"} {
		spec := simulation(t)
		spec.Workload.Value, spec.Simulator, spec.Performance = w, &Simulator{Policy: "easy", Processors: 8}, speed
		s, err := Run(t.Context(), spec, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, w := range s.Warnings {
			if w.Code == "slowed-to-limit" {
				got = w.Text
			}
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") || !s.Valid {
			t.Errorf("x%v: valid %t, %q, want %q", speed, s.Valid, got, want)
		}
	}
}

// A run whose limits are far shorter than the recorded run times, as with a wrong unit, is not valid.
func TestEndsAtLimit(t *testing.T) {
	cluster := filepath.Join(t.TempDir(), "cluster")
	writeCluster(t, cluster, map[string]string{"slurm.conf": "ClusterName=two\nSlurmctldHost=ctl\nSelectType=select/cons_tres\n" +
		"SelectTypeParameters=CR_CPU\nNodeName=n[1-2] CPUs=4\nPartitionName=batch Nodes=n[1-2] Default=YES\n"})
	for _, policy := range []string{"easy", "slurm"} {
		w := withoutLimits()
		var jobs []*hpc.Job
		for _, j := range w.Jobs.All() {
			own, recorded := *j, *j.Recorded
			own.TimeLimit, own.RunTime = time.Minute, 10*time.Minute
			recorded.End, own.Recorded = recorded.Start.Add(own.RunTime), &recorded
			jobs = append(jobs, &own)
		}
		w.Jobs = workload.JobsOf(jobs...)
		spec := simulation(t)
		spec.Workload.Value, spec.Simulator = w, &Simulator{Cluster: cluster, Policy: policy}
		s, err := Run(t.Context(), spec, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		const want = "2 jobs ended at the time limit: on record they were COMPLETED after longer runs"
		if s.Valid || len(s.Warnings) != 1 || s.Warnings[0].Code != run.EndsAtLimit || !strings.HasPrefix(s.Warnings[0].Text, want) {
			t.Errorf("%s: valid %t, %+v", policy, s.Valid, s.Warnings)
		}
	}
}

// A run of the model of Slurm, like a replay, ends jobs with an exit code that were cancelled on
// record. It says which jobs are FAILED for this reason.
func TestKilledOnRecord(t *testing.T) {
	cluster := filepath.Join(t.TempDir(), "cluster")
	writeCluster(t, cluster, map[string]string{"slurm.conf": "ClusterName=two\nSlurmctldHost=ctl\nSelectType=select/cons_tres\n" +
		"SelectTypeParameters=CR_CPU\nNodeName=n[1-2] CPUs=4\nPartitionName=batch Nodes=n[1-2] Default=YES\n"})
	w := withoutLimits()
	var jobs []*hpc.Job
	for _, j := range w.Jobs.All() {
		own, recorded := *j, *j.Recorded
		own.Recorded = &recorded
		jobs = append(jobs, &own)
	}
	for _, j := range jobs {
		j.TimeLimit = time.Hour
	}
	jobs[0].Recorded.State, jobs[0].ExitCode = hpc.Cancelled, 1
	jobs[1].Recorded.State, jobs[1].CancelAfter = hpc.Cancelled, time.Second // its user cancels it in the run, too
	jobs[2].Recorded.State, jobs[2].ExitCode = hpc.NodeFail, 1
	jobs[3].Array, jobs[3].TaskExitCodes = "1-3", map[int]int{1: 1, 2: 1}
	jobs[3].Recorded.TaskStates = map[int]hpc.State{1: hpc.Cancelled, 2: hpc.Failed}
	w.Jobs = workload.JobsOf(jobs...)
	for _, policy := range []string{"easy", "slurm"} {
		spec := simulation(t)
		spec.Workload.Value, spec.Simulator = w, &Simulator{Cluster: cluster, Policy: policy}
		s, err := Run(t.Context(), spec, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		const want = "3 jobs ended as FAILED: on record they were 2 CANCELLED, 1 NODE_FAIL (a run ends such jobs with an exit " +
			"code, after their recorded run time)"
		if policy == "easy" { // the built-in simulator ends jobs as their record says
			if len(s.Warnings) != 0 || s.JobsByState[hpc.Cancelled] != 3 || s.JobsByState[hpc.NodeFail] != 1 {
				t.Errorf("%s: %v, warnings %+v", policy, s.JobsByState, s.Warnings)
			}
			continue
		}
		if len(s.Warnings) != 1 || s.Warnings[0].Code != run.EndsAsFailed || s.Warnings[0].Text != want || !s.Valid {
			t.Errorf("%s: valid %t, warnings %+v", policy, s.Valid, s.Warnings)
		}
	}
}

// A run is not valid if it ends jobs at a limit that their record does not have. It names these jobs and
// the remedy. A check of the workload warns of this once, before any run.
func TestUnrecordedLimits(t *testing.T) {
	cluster := filepath.Join(t.TempDir(), "cluster")
	writeCluster(t, cluster, map[string]string{"slurm.conf": `ClusterName=two
SlurmctldHost=ctl
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n[1-2] CPUs=4
PartitionName=batch Nodes=n[1-2] Default=YES DefaultTime=1
PartitionName=long Nodes=n[1-2]
`})
	spec := simulation(t)
	spec.Workload.Value, spec.Simulator = withoutLimits(), &Simulator{Cluster: cluster}
	s, err := Run(t.Context(), spec, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Doubt, "2 jobs were ended at a default time limit, because the workload has no time limit for them; 1 of them were COMPLETED on record: a, b") {
		t.Errorf("valid %t: %q", s.Valid, s.Doubt)
	}
	conf, err := OpenCluster(cluster, 0)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, p := range Check(withoutLimits(), conf, time.UTC) {
		if p.Rule == RuleDefaultLimit {
			texts = append(texts, p.Text)
		}
	}
	if len(texts) != 1 || !strings.HasPrefix(texts[0], "3 of 4 jobs without a time limit run longer than the default limit of their partition") {
		t.Errorf("problems %q", texts)
	}
	// The run is valid with the remedy, and also if no default limit ends the jobs.
	spec.Workload.Value, spec.Overwrite, spec.TwiceRunTime = withoutLimits(), true, true
	if s, err := Run(t.Context(), spec, Hooks{}); err != nil || !s.Valid {
		t.Errorf("twice the run time: %v, %+v", err, s)
	}
}

// A simulation keeps the outcomes of the record: a job that failed without an exit code fails.
func TestRecordedOutcomes(t *testing.T) {
	spec := simulation(t)
	w := withoutLimits()
	w.Jobs.Append(&hpc.Job{ID: "z", Submit: w.Epoch.Add(time.Minute), Request: hpc.Request{User: "ada", Tasks: 1}, Behaviour: hpc.Behaviour{RunTime: time.Second},
		Recorded: &hpc.Recorded{Start: w.Epoch.Add(time.Minute), End: w.Epoch.Add(61 * time.Second), State: hpc.Cancelled}})
	killed := w.Epoch.Add(2 * time.Minute) // like accounting records of a job that was cancelled while it ran, and of an array
	w.Jobs.Append(&hpc.Job{ID: "zz", Submit: killed, Request: hpc.Request{User: "ada", Tasks: 1}, Behaviour: hpc.Behaviour{RunTime: time.Second, ExitCode: 1},
		Recorded: &hpc.Recorded{Start: killed, End: killed.Add(time.Second), State: hpc.Cancelled}})
	w.Jobs.Append(&hpc.Job{ID: "zzz", Submit: killed, Request: hpc.Request{User: "ada", Tasks: 1, Array: "1-2"},
		Behaviour: hpc.Behaviour{RunTime: time.Second, TaskExitCodes: map[int]int{2: 1}}, Recorded: &hpc.Recorded{Start: killed, End: killed.Add(time.Second), State: hpc.Cancelled}})
	spec.Workload.Value = w
	if _, err := Run(t.Context(), spec, Hooks{}); err != nil {
		t.Fatal(err)
	}
	simulated, err := run.Open(spec.Output)
	if err != nil {
		t.Fatal(err)
	}
	s, err := metrics.FromRun(simulated, metrics.Options{})
	if err != nil || s.JobsByState[hpc.Completed] != 4 || s.JobsByState[hpc.Failed] != 1 || s.JobsByState[hpc.Cancelled] != 3 {
		t.Errorf("%v, states %v", err, s.JobsByState)
	}
}

// A job that outlived its time limit on record ends at the limit with its recorded state, since a log does
// not call each such job TIMEOUT. With other limits than the recorded limits, its state is TIMEOUT.
func TestOutlivedLimits(t *testing.T) {
	states := []hpc.State{hpc.Completed, hpc.Failed, hpc.TimedOut, hpc.Completed, hpc.Completed}
	outlived := func() *workload.Workload {
		w := withoutLimits()
		w.Jobs = workload.Jobs{}
		for i, state := range states {
			job := &hpc.Job{ID: strconv.Itoa(i), Submit: w.Epoch, Request: hpc.Request{User: "ada", Tasks: 1, TimeLimit: time.Hour},
				Behaviour: hpc.Behaviour{RunTime: time.Hour + time.Minute},
				Recorded:  &hpc.Recorded{Start: w.Epoch, End: w.Epoch.Add(time.Hour + time.Minute), State: state}}
			switch i {
			case 3: // its I/O makes its run time longer than on record
				job.Recorded.End = w.Epoch.Add(50 * time.Minute)
			case 4:
				job.Made = "time_limit=published"
			}
			w.Jobs.Append(job)
		}
		return w
	}
	shorter, err := transform.LongestLimit("*", 30*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	shortened, _, err := transform.Apply(outlived(), transform.Environment{}, shorter)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		w    *workload.Workload
		want []hpc.State
	}{
		{outlived(), []hpc.State{hpc.Completed, hpc.Failed, hpc.TimedOut, hpc.TimedOut, hpc.TimedOut}},
		{shortened, slices.Repeat([]hpc.State{hpc.TimedOut}, len(states))},
	} {
		spec := simulation(t)
		spec.Workload.Value = test.w
		if _, err := Run(t.Context(), spec, Hooks{}); err != nil {
			t.Fatal(err)
		}
		r, err := run.Open(spec.Output)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.Jobs()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			i, _ := strconv.Atoi(row.Job)
			if row.State != test.want[i] || row.End.Sub(row.Start) != test.w.Jobs.At(i).TimeLimit {
				t.Errorf("%v: job %d is %s after %s, want %s", test.w.Transforms, i, row.State, row.End.Sub(row.Start), test.want[i])
			}
		}
	}
}
