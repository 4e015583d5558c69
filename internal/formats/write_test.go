package formats

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/realdata"
	"rmreplay/internal/workload"
)

// read reads a workload of any format.
func read(t *testing.T, text string) *workload.Workload {
	t.Helper()
	w, err := Read(strings.NewReader(text), "x", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// written writes a workload in a format and reads it again.
func written(t *testing.T, w *workload.Workload, format string) (*workload.Workload, workload.Losses) {
	t.Helper()
	var b bytes.Buffer
	losses, err := Write(&b, w, format)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(&b, "again", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return again, losses
}

const manyOptions = `
-dt 0     -e submit_batch_job | -J a -sim-walltime 30.5 --uid=ann -A x -p batch,gpu -q normal -t 10 -N 2-3 -n 8 --ntasks-per-node=4 -c 2 --mem=0
-dt 100.25 -e submit_batch_job | -J b -sim-walltime 1800 --uid=bob -t 1-00:00:00 -N 1 -n 4 -d after:a+5,singleton --switches=1@5 -w n[1-4] --exclusive=user
-dt 4000  -e submit_batch_job | -J 'c d' -sim-walltime -1 --uid=bob -t UNLIMITED --gres=gpu:1 -b now+2hours --comment="it's | here" --no-requeue -H --signal=B:USR1@60
-dt 4001  -e submit_batch_job | -J e -sim-walltime 60 --uid=bob -t 4 -a 1-3%2 --exclusive --nice=7 --priority=12 -C 'a&b|c' -k --mem-per-cpu=2G --mincpus=3
-dt 5000  -e submit_batch_job | -J f -sim-walltime 60 --uid=ann -G a100:4 --gpus-per-node=2 --cpus-per-gpu=3 -B 2:4:1 --hint=nomultithread --tmp=5G --time-min=2 -t 9
-dt 5100  -e cancel_job | -J f
`

func TestEventsRoundTrip(t *testing.T) {
	w := read(t, manyOptions)
	again, losses := written(t, w, "events")
	if diff := cmp.Diff(w.Jobs.List(), again.Jobs.List()); diff != "" {
		t.Errorf("jobs (-want +got)\n%s", diff)
	}
	if len(losses) > 0 {
		t.Errorf("losses %v", losses)
	}
}

func TestRealEventsRoundTrip(t *testing.T) {
	for _, file := range []string{"slurm/micro/jobs500.events", "slurm/medium/workload_5k.events"} {
		w, err := Open(realdata.Path(t, file))
		if err != nil {
			t.Fatal(err)
		}
		again, losses := written(t, w, "events")
		if diff := cmp.Diff(w.Jobs.List(), again.Jobs.List()); diff != "" || len(losses) > 0 {
			t.Errorf("%s: losses %v, jobs (-want +got)\n%.2000s", file, losses, diff)
		}
	}
}

// TestEventsLosses checks that the writer counts the facts that events cannot express, and writes
// the rest.
func TestEventsLosses(t *testing.T) {
	w := &workload.Workload{
		Epoch: workload.DefaultEpoch, Users: []hpc.User{{Name: "ann"}}, Unusable: []workload.Unusable{{}},
		NodeEvents: []hpc.NodeEvent{{}}, Reservations: []hpc.ReservationEvent{{}},
		Jobs: workload.JobsOf([]*hpc.Job{
			{ID: "1", Submit: workload.DefaultEpoch, Request: hpc.Request{Name: "same", TimeLimit: 90 * time.Second}, Recorded: &hpc.Recorded{}},
			{ID: "2", Submit: workload.DefaultEpoch, Request: hpc.Request{Name: "same", Dependency: "afterok:1"}, Behaviour: hpc.Behaviour{ExitCode: 3}},
			{ID: "3", Submit: workload.DefaultEpoch, Request: hpc.Request{Name: "x", Comment: "two\nlines", Array: "0-1"}, Behaviour: hpc.Behaviour{TaskRunTimes: map[int]time.Duration{1: 1}, TaskExitCodes: map[int]int{1: 2}}},
		}...),
	}
	again, losses := written(t, w, "events")
	want := workload.Losses{
		"name": 2, "time_limit_s": 1, "recorded": 1, "exit_code": 1, "comment": 1, "task_run_times_s": 1, "task_exit_codes": 1,
		"users": 1, "unusable records": 1, "node events": 1, "reservation events": 1,
	}
	if diff := cmp.Diff(want, losses); diff != "" {
		t.Errorf("losses (-want +got)\n%s", diff)
	}
	if again.Jobs.At(1).Dependency != "afterok:1" || again.Jobs.At(0).ID != "1" || again.Jobs.At(2).ID != "x" {
		t.Errorf("jobs %+v", again.Jobs)
	}
}

func TestSacctRoundTrip(t *testing.T) {
	w := read(t, manyOptions)
	for i, job := range w.Jobs.All() {
		job.ID = []string{"10", "11", "12", "13", "14"}[i]
		job.Submit = hpc.Unix(job.Submit.UnixSeconds())
		start := job.Submit.Add(time.Duration(i) * time.Minute)
		job.Recorded = &hpc.Recorded{Eligible: job.Submit, Start: start, End: start.Add(time.Hour), State: hpc.Completed, Nodes: "n[1-2]", Processors: 8, Priority: 5}
		if job.RunTime == hpc.Unlimited {
			job.Recorded.State, job.TimeLimit = hpc.TimedOut, time.Hour
		} else {
			job.RunTime = time.Hour
		}
		job.CancelAfter, job.Hold = 0, false // it ran
		w.Jobs.Set(i, job)
	}
	w.Jobs.Change(1, func(j *hpc.Job) { j.Dependency = "after:10+5,singleton" })
	w.Jobs.Change(3, func(j *hpc.Job) { // each task of the array has its own fate
		r := j.Recorded
		r.Nodes, r.TaskNodes = "", map[int]string{1: "n1", 2: "n2", 3: "n1"}
		r.TaskStarts = map[int]hpc.Time{1: r.Start, 2: r.Start, 3: r.End}
		r.TaskEnds = map[int]hpc.Time{1: r.End, 2: r.End, 3: r.End.Add(time.Hour)}
		r.End = r.TaskEnds[3]
	})
	w.Users = []hpc.User{{Name: "ann", UID: 5, Group: "g", GID: 6}, {Name: "bob", UID: 7, Group: "g", GID: 6}}
	again, losses := written(t, w, "sacct")
	for i, job := range again.Jobs.All() { // sbatch derives some options from others
		job.Recorded.Processors = 8
		again.Jobs.Set(i, job)
	}
	if diff := cmp.Diff(w.Jobs.List(), again.Jobs.List()); diff != "" {
		t.Errorf("jobs (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(w.Users, again.Users); diff != "" || len(losses) > 0 {
		t.Errorf("losses %v, users (-want +got)\n%s", losses, diff)
	}
}

// TestSacctInForce checks the limit of a job that asked for none, and a lost run, whose priority is
// not known.
func TestSacctInForce(t *testing.T) {
	at := func(minutes int) hpc.Time { return workload.DefaultEpoch.Add(time.Duration(minutes) * time.Minute) }
	job := &hpc.Job{ID: "1", Submit: at(0), Request: hpc.Request{User: "ann", Tasks: 1}, Behaviour: hpc.Behaviour{RunTime: time.Minute},
		Recorded: &hpc.Recorded{Eligible: at(0), Start: at(9), End: at(10), State: hpc.Completed, Processors: 1, Priority: 7, TimeLimit: time.Hour,
			Interruptions: hpc.Interruptions{LostRuns: []hpc.LostRun{{Start: at(1), End: at(2), EligibleAgain: at(4), Processors: 1, Cause: hpc.Preempted}}}}}
	w := &workload.Workload{Jobs: workload.JobsOf(job)}
	var b bytes.Buffer
	losses, err := Write(&b, w, "sacct")
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	var limit, priority int
	for i, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		cells := strings.Split(line, "|")
		if i == 0 {
			limit, priority = slices.Index(cells, "Timelimit"), slices.Index(cells, "Priority")
			continue
		}
		got = append(got, []string{cells[limit], cells[priority]})
	}
	if diff := cmp.Diff([][]string{{"01:00:00", ""}, {"01:00:00", "7"}}, got); diff != "" {
		t.Errorf("limits and priorities (-want +got)\n%s", diff)
	}
	if want := (workload.Losses{workload.LostPriorities: 1}); !cmp.Equal(want, losses) {
		t.Errorf("losses %v, want %v", losses, want)
	}
	for _, format := range []string{"trace", "csv"} {
		if again, _ := written(t, w, format); again.Jobs.At(0).Recorded.TimeLimit != time.Hour {
			t.Errorf("%s: the limit in force is lost", format)
		}
	}
}

// TestSacctLosses writes fields that sacct's output cannot express.
func TestSacctLosses(t *testing.T) {
	for what, job := range map[string]hpc.Job{
		"": {Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited}, Request: hpc.Request{TimeLimit: time.Minute}},
		"run_time_s (until a limit that the job does not name)": {Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited}},
		"hold":   {Behaviour: hpc.Behaviour{RunTime: time.Minute}, Request: hpc.Request{Hold: true}},
		"end_at": {Behaviour: hpc.Behaviour{RunTime: time.Minute, EndAt: 60 * hpc.Second}},
	} {
		job.ID, job.User, job.Tasks = "1", "ann", 1
		job.Recorded = &hpc.Recorded{Start: workload.DefaultEpoch, End: workload.DefaultEpoch.Add(time.Minute), State: hpc.Completed}
		job.Submit = workload.DefaultEpoch
		want := workload.Losses{}
		want.Add(what, 1)
		delete(want, "")
		if _, got := written(t, &workload.Workload{Jobs: workload.JobsOf(&job)}, "sacct"); !cmp.Equal(want, got) {
			t.Errorf("losses %v, want %v", got, want)
		}
	}
}

const smallSWF = `; Version: 2.2
; UnixStartTime: 843480031
; MaxNodes: 100 (batch)
; MaxProcs: 800
; Queue:  0 interactive
; Queue:  1 express          (p655 /  2hr)
; Partition:  1  pbatch    
    1       10     -1     60    4 142.00    -1   -1    600    -1  1  12   3   7  1  1 -1 -1
    2       20      5     30   -1     -1   900    8     -1  1500  0  13  -1  -1  9 -1  1 30
    3       25      0     10    2     -1    -1    2    100    -1  5  12   3  -1 -1 -1 -1 -1
`

// TestConvertSWF writes a log in several formats and reads the same jobs again.
func TestConvertSWF(t *testing.T) {
	w := read(t, smallSWF)
	for _, format := range []string{"trace", "sacct", "events", "csv"} {
		again, _ := written(t, w, format)
		if again.Jobs.Len() != w.Jobs.Len() {
			t.Errorf("%s: %d jobs, want %d", format, again.Jobs.Len(), w.Jobs.Len())
			continue
		}
		for i, job := range again.Jobs.All() {
			want, runTime := w.Jobs.At(i), w.Jobs.At(i).RunTime
			if format == "sacct" && want.Recorded.Start == 0 {
				runTime = hpc.Unlimited // sacct's output cannot say that a job ran if it has no start
			}
			if job.Submit.Sub(again.Jobs.Submit(0)) != want.Submit.Sub(w.Jobs.Submit(0)) || job.User != want.User || job.QOS != want.QOS ||
				job.RunTime != runTime || workload.CPUs(&job.Request) != workload.CPUs(&want.Request) || job.MemPerCPU != want.MemPerCPU {
				t.Errorf("%s: %+v, want %+v", format, job, want)
			}
		}
	}
}

func TestWriteUnknown(t *testing.T) {
	_, err := Write(&bytes.Buffer{}, &workload.Workload{}, "xls")
	if err == nil || !strings.Contains(err.Error(), "format xls: not known (want trace, swf, events, sacct, csv)") {
		t.Error(err)
	}
}
