package sacct_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/finished"
	"rmreplay/internal/formats"
	"rmreplay/internal/formats/sacct"
	"rmreplay/internal/hpc"
	"rmreplay/internal/realdata"
	"rmreplay/internal/workload"
)

func readSacct(t *testing.T, text string, opts workload.ReadOptions) *workload.Workload {
	t.Helper()
	w, _, err := sacct.Accounting(strings.NewReader(text), "x.sacct", opts)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func jobNames(w *workload.Workload) (names []string) {
	for _, job := range w.Jobs.All() {
		names = append(names, job.ID+" "+job.Name)
	}
	return names
}

func jobByID(t *testing.T, w *workload.Workload, id string) *hpc.Job {
	t.Helper()
	for _, job := range w.Jobs.All() {
		if job.ID == id {
			return job
		}
	}
	t.Fatalf("no job %s among %v", id, jobNames(w))
	return nil
}

func TestRealSacct(t *testing.T) {
	for _, tt := range []struct {
		file  string
		names []string
		rules map[string]int
	}{
		{
			"sacct_simple.log",
			[]string{"1 job_00001", "2 job_0||0002", "3 job_0|0003", "4 job_|00004"},
			nil,
		}, {
			"sacct_dump2101.log",
			[]string{
				"4744528 JobName001", "4801784 JobName001", "4810966 JobName001", "4810966#2 JobName001",
				"4814610 JobName001", "4814610#2 JobName001", "4822203 JobName002", "4830973 JobName003", "4830974 JobName003",
				"4830975 Job| Name003", "4830976 Job| Name |003", "4830977 Jo| bNa| me003",
			},
			map[string]int{finished.NoteNeverStarted: 6, finished.NoteArrayParts: 2, finished.RuleNoRecord: 1},
		},
	} {
		w, err := formats.Open(realdata.Path(t, "slurm/sacct/"+tt.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(tt.names, jobNames(w)); diff != "" {
			t.Errorf("%s: names (-want +got)\n%s", tt.file, diff)
		}
		if diff := cmp.Diff(tt.rules, w.Rules); diff != "" {
			t.Errorf("%s: rules (-want +got)\n%s", tt.file, diff)
		}
	}
}

func TestRealSacctReference(t *testing.T) {
	w, err := formats.Open(realdata.Path(t, "slurm/micro/jobs500org.real-slurm.sacct.txt"))
	if err != nil {
		t.Fatal(err)
	}
	states := map[hpc.State]int{}
	var wait time.Duration
	for _, job := range w.Jobs.All() {
		states[job.Recorded.State]++
		wait += job.Recorded.Start.Sub(job.Submit)
	}
	if w.Jobs.Len() != 500 || states[hpc.Completed] != 488 || states[hpc.TimedOut] != 12 || int(wait.Seconds()/500) != 12301 {
		t.Errorf("%d jobs, %v, mean wait %g s", w.Jobs.Len(), states, wait.Seconds()/500)
	}
}

const sacctHeader = "JobID|JobName|User|UID|Group|GID|Account|Partition|QOS|Submit|Eligible|Start|End|Elapsed|State|ExitCode|ReqCPUS|NCPUS|NNodes|ReqMem|ReqTRES|Timelimit|NodeList|Reason|SubmitLine\n"

func TestRead(t *testing.T) {
	w := readSacct(t, sacctHeader+
		"10|a|ann|501|staff|50|phys|batch|normal|2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T09:01:00|01:00:00|COMPLETED|0:0|8|8|2|16G|cpu=8,mem=16G,node=2,gres/gpu=2,gres/gpu:a100=2|2:00:00|n[1-2]|None|\n"+
		"10.batch|batch||||||||2024-03-01T08:01:00||2024-03-01T08:01:00|2024-03-01T09:01:00||COMPLETED|0:0||8|1||||n1||\n"+
		"11|b|ann|501|phys|51|phys|batch|normal|2024-03-01T08:00:10|2024-03-01T09:01:00|2024-03-01T09:01:00|2024-03-01T09:02:00|00:01:00|FAILED|3:0|4|4|1|||UNLIMITED|n1|None|sbatch -n 4 --ntasks-per-node=4 --switches=1@10 -d afterok:10:9 b.sh\n"+
		"12_[3-5%2]|c|bob|502|staff|50|phys|batch|normal|2024-03-01T08:00:20|2024-03-01T08:00:20|Unknown|Unknown|00:00:00|PENDING|0:0|1|1|1||cpu=1|Partition_Limit|None assigned|Priority|\n"+
		"12_1|c|bob|502|staff|50|phys|batch|normal|2024-03-01T08:00:20|2024-03-01T08:00:20|2024-03-01T08:02:00|2024-03-01T08:03:00|00:01:00|COMPLETED|0:0|1|1|1||cpu=1|Partition_Limit|n1|None|\n"+
		"12_2|c|bob|502|staff|50|phys|batch|normal|2024-03-01T08:00:20|2024-03-01T08:00:20|2024-03-01T08:02:00|2024-03-01T08:02:30|00:00:30|FAILED|1:0|1|1|1||cpu=1|Partition_Limit|n2|None|\n"+
		"13|d|bob|502|staff|50|phys|batch|normal|2024-03-01T08:00:30|2024-03-01T08:00:30|None|2024-03-01T08:10:30|00:00:00|CANCELLED by 502|0:0|1|1|1|2800Mc||60|None assigned|JobHeldUser|\n", workload.ReadOptions{})
	at := func(clock string) hpc.Time {
		at, err := hpc.ParseTime("2024-03-01T" + clock)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	want := []*hpc.Job{
		{
			ID: "10", Submit: at("08:00:00"),
			Request: hpc.Request{
				Name: "a", User: "ann", Account: "phys", Partition: "batch", QOS: "normal",
				TimeLimit: 2 * time.Hour, MinNodes: 2, MaxNodes: 2, Tasks: 8, MemPerNode: 8192, GPUs: "a100:2",
			},
			Behaviour: hpc.Behaviour{RunTime: time.Hour},
			Recorded:  &hpc.Recorded{Eligible: at("08:00:00"), Start: at("08:01:00"), End: at("09:01:00"), State: hpc.Completed, Nodes: "n[1-2]", Processors: 8},
		},
		{
			ID: "11", Submit: at("08:00:10"),
			Request: hpc.Request{
				Name: "b", User: "ann", Group: "phys", Account: "phys", Partition: "batch", QOS: "normal", Dependency: "afterok:10",
				TimeLimit: hpc.Unlimited, Tasks: 4, TasksPerNode: 4, Switches: 1, SwitchWait: 10 * time.Minute,
			},
			Behaviour: hpc.Behaviour{RunTime: time.Minute, ExitCode: 3},
			Recorded:  &hpc.Recorded{Eligible: at("09:01:00"), Start: at("09:01:00"), End: at("09:02:00"), State: hpc.Failed, Nodes: "n1", Processors: 4},
		},
		{
			ID: "12", Submit: at("08:00:20"),
			Request: hpc.Request{
				Name: "c", User: "bob", Account: "phys", Partition: "batch", QOS: "normal", Array: "1-5%2",
				MinNodes: 1, MaxNodes: 1, Tasks: 1,
			},
			Behaviour: hpc.Behaviour{
				RunTime:       hpc.Unlimited,
				TaskRunTimes:  map[int]time.Duration{1: time.Minute, 2: 30 * time.Second},
				TaskExitCodes: map[int]int{2: 1},
			},
			Recorded: &hpc.Recorded{
				Eligible: at("08:00:20"), Start: at("08:02:00"), End: at("08:03:00"), Processors: 1,
				TaskStarts: map[int]hpc.Time{1: at("08:02:00"), 2: at("08:02:00")},
				TaskEnds:   map[int]hpc.Time{1: at("08:03:00"), 2: at("08:02:30")},
				TaskNodes:  map[int]string{1: "n1", 2: "n2"},
				TaskStates: map[int]hpc.State{1: hpc.Completed, 2: hpc.Failed, 3: hpc.Pending, 4: hpc.Pending, 5: hpc.Pending},
			},
		},
		{
			ID: "13", Submit: at("08:00:30"),
			Request: hpc.Request{
				Name: "d", User: "bob", Account: "phys", Partition: "batch", QOS: "normal", Hold: true,
				TimeLimit: time.Hour, MinNodes: 1, MaxNodes: 1, Tasks: 1, MemPerCPU: 2800,
			},
			Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited, CancelAfter: 10 * time.Minute},
			Recorded:  &hpc.Recorded{Eligible: at("08:00:30"), End: at("08:10:30"), State: hpc.Cancelled},
		},
	}
	want[3].TimeLimit = 0 // "60" is not a time in sacct's form
	if diff := cmp.Diff(want, w.Jobs.List()); diff != "" {
		t.Errorf("jobs (-want +got)\n%s", diff)
	}
	rules := map[string]int{finished.NoteNeverStarted: 2, finished.NoteDependencyGone: 1, finished.RuleBadValue: 1}
	if diff := cmp.Diff(rules, w.Rules); diff != "" {
		t.Errorf("rules (-want +got)\n%s", diff)
	}
	users := []hpc.User{{Name: "ann", UID: 501, Group: "staff", GID: 50}, {Name: "bob", UID: 502, Group: "staff", GID: 50}}
	if diff := cmp.Diff(users, w.Users); diff != "" {
		t.Errorf("users (-want +got)\n%s", diff)
	}
}

// sacctLine is a record of the columns JobID, JobName, Comment, Submit, Start, End, State, ReqCPUS.
func sacctLine(id, name, comment string, submit, start, end int, state string) string {
	clock := func(s int) string {
		if s < 0 {
			return "Unknown"
		}
		return hpc.Unix(1_700_000_000 + int64(s)).Std().Format("2006-01-02T15:04:05")
	}
	return fmt.Sprintf("%s|%s|%s|%s|%s|%s|%s|4\n", id, name, comment, clock(submit), clock(start), clock(end), state)
}

const fewColumns = "JobID|JobName|Comment|Submit|Start|End|State|ReqCPUS\n"

func TestSacctBarsAndLines(t *testing.T) {
	w := readSacct(t, "\xef\xbb\xbf"+fewColumns+
		sacctLine("1", "a|b", "c", 0, 10, 20, "COMPLETED")+
		sacctLine("2", "two", "first line\nsecond line\n\nlast", 0, 10, 20, "COMPLETED")+
		sacctLine("3", "Ren\xe9", "", 0, 10, 20, "COMPLETED")+
		fewColumns+ // two dumps in one file
		"5|cut off|here\n"+
		strings.ReplaceAll(sacctLine("4", "four", "", 0, 10, 20, "COMPLETED"), "\n", "\r\n")+
		"6|cut off", workload.ReadOptions{})
	want := []string{"1 a|b", "2 two", "3 René", "4 four"}
	if diff := cmp.Diff(want, jobNames(w)); diff != "" {
		t.Errorf("names (-want +got)\n%s", diff)
	}
	if got := w.Jobs.At(1).Comment; got != "first line\nsecond line\n\nlast" {
		t.Errorf("comment %q", got)
	}
	if w.Rules[finished.RuleNoRecord] != 2 || len(w.Unusable) != 2 || w.Unusable[1].Text != "6|cut off" {
		t.Errorf("rules %v, unusable %v", w.Rules, w.Unusable)
	}
}

func TestSacctRules(t *testing.T) {
	good := sacctLine("1", "a", "", 0, 10, 20, "COMPLETED")
	// The reader checks these rules when it has read all records of a job. The error names the job, but no line.
	whole := []string{workload.RuleRenamed, finished.RuleTimesReversed, finished.RuleNoStartAtAll, workload.RuleClockJump}
	for _, tt := range []struct{ lines, rule, want string }{
		{"2|b|c|yesterday||||4\n", finished.RuleNoRecord, `job 2: Submit "yesterday": not a time`},
		{"2|b|c|2024-02-30T00:00:00||||4\n", finished.RuleNoRecord, `job 2: Submit "2024-02-30T00:00:00": not a time`},
		{"2|b|c|9999-02-20T00:00:00||||4\n", finished.RuleNoRecord, `job 2: Submit "9999-02-20T00:00:00": not a time`},
		{"2|b|c|-5||||4\n", finished.RuleNoRecord, `job 2: Submit "-5": not a time`},
		{"two|b|c|2024-02-20T00:00:00||||4\n", finished.RuleNoRecord, `JobID: "two": not a job's number`},
		{sacctLine("2_x", "b", "", 0, 10, 20, "COMPLETED"), finished.RuleNoRecord, "\"x\" is not a task's number"},
		{sacctLine("2", "b", "", -1, 10, 20, "COMPLETED"), finished.RuleNoSubmit, "job 2: no submit time"},
		{strings.Replace(sacctLine("2", "b", "", 0, 10, 20, "COMPLETED"), "|4\n", "|0\n", 1), finished.RuleNoSize, "job 2: neither processors nor nodes"},
		{strings.Replace(sacctLine("2", "b", "", 0, 10, 20, "COMPLETED"), "|4\n", "|-4\n", 1), finished.RuleBadValue, `ReqCPUS "-4": not a count`},
		{strings.Replace(sacctLine("2", "b", "", 0, 10, 20, "COMPLETED"), "|4\n", "|1.024\n", 1), finished.RuleBadValue, `ReqCPUS "1.024": not a whole number`},
		{good, finished.RuleDuplicate, "job 1 occurs twice"},
		{sacctLine("1", "a", "", 5, 10, 20, "COMPLETED"), workload.RuleRenamed, "job 1 occurs twice, with different times"},
		{sacctLine("2", "b", "", 0, 20, 10, "COMPLETED"), finished.RuleTimesReversed, "job 2: submit "},
		{sacctLine("2", "b", "", 30, 20, 40, "COMPLETED"), finished.RuleTimesReversed, "job 2: submit "},
		{sacctLine("2", "b", "", 0, -1, 20, "COMPLETED"), finished.RuleNoStartAtAll, "job 2: it ran and ended"},
		{sacctLine("2", "b", "", -20, 10, 20, "COMPLETED"), "", ""},
		{sacctLine("2", "b", "", 80_000_000, 80_000_010, 80_000_020, "COMPLETED"), workload.RuleClockJump, "days after the previous job"},
		{"|||||||\x00\n", finished.RuleNoRecord, "not a job's number"},
		{strings.Repeat("|", 1<<20) + "\n", finished.RuleNoRecord, "fields, where the header has 8"},
		{"2|cut off\n", finished.RuleNoRecord, "fewer fields than the header's 8"},
		{"2|cut off\nand on\n" + sacctLine("3", "b", "", 0, 10, 20, "COMPLETED"), finished.RuleNoRecord, "fewer fields than the header's 8"},
	} {
		if tt.rule == "" {
			continue
		}
		w := readSacct(t, fewColumns+good+tt.lines, workload.ReadOptions{})
		if w.Rules[tt.rule] != 1 {
			t.Errorf("%.60q: rules %v, want %s", tt.lines, w.Rules, tt.rule)
		}
		_, _, err := sacct.Accounting(strings.NewReader(fewColumns+good+tt.lines), "x.sacct", workload.ReadOptions{Strict: true})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "(rule ") ||
			!strings.HasPrefix(err.Error(), "reading sacct: x.sacct:3: ") && !slices.Contains(whole, tt.rule) {
			t.Errorf("%.60q: strict: %v, want %q", tt.lines, err, tt.want)
		}
	}
}

// TestSacctEnds checks that a job that failed in the record, for any reason, fails in the replay
// too. Jobs that depend on it see that.
func TestSacctEnds(t *testing.T) {
	const header = "JobID|Submit|Start|End|State|ExitCode|ReqCPUS|Timelimit\n"
	for _, tt := range []struct {
		state, code, limit string
		runs               time.Duration
		exits              int
	}{
		{"COMPLETED", "0:0", "01:00:00", 10 * time.Second, 0},
		{"FAILED", "3:0", "01:00:00", 10 * time.Second, 3},
		{"FAILED", "0:9", "01:00:00", 10 * time.Second, 137},
		{"OUT_OF_MEMORY", "0:125", "01:00:00", 10 * time.Second, 253},
		{"CANCELLED by 5", "0:15", "01:00:00", 10 * time.Second, 143},
		{"NODE_FAIL", "0:0", "01:00:00", 10 * time.Second, 1},
		{"PREEMPTED", "", "01:00:00", 10 * time.Second, 1},
		{"TIMEOUT", "0:15", "01:00:00", hpc.Unlimited, 0},
		{"TIMEOUT", "0:0", "", 10 * time.Second, 1},
		{"TIMEOUT", "0:0", "UNLIMITED", 10 * time.Second, 1},
		{"RUNNING", "0:0", "", hpc.Unlimited, 0},
	} {
		end := "2024-03-01T08:00:10"
		if tt.state == "RUNNING" {
			end = "Unknown"
		}
		w := readSacct(t, header+"1|2024-03-01T08:00:00|2024-03-01T08:00:00|"+end+"|"+tt.state+"|"+tt.code+"|1|"+tt.limit+"\n", workload.ReadOptions{})
		job := w.Jobs.At(0)
		if job.RunTime != tt.runs || job.ExitCode != tt.exits || job.CancelAfter != 0 || len(w.Unusable) > 0 {
			t.Errorf("%+v: %+v", tt, job.Behaviour)
		}
	}
	for _, code := range []string{"256:0", "0:128", "x:0", "0:x"} {
		w := readSacct(t, header+"1|2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T08:00:10|COMPLETED|"+code+"|1|\n", workload.ReadOptions{})
		if w.Rules[finished.RuleBadValue] != 1 {
			t.Errorf("exit code %s: rules %v", code, w.Rules)
		}
	}
}

func TestSacctRequeue(t *testing.T) {
	w := readSacct(t, fewColumns+
		sacctLine("1", "a", "", 0, 10, 20, "NODE_FAIL")+
		sacctLine("1", "a", "", 20, 30, 100, "PREEMPTED")+
		sacctLine("1", "a", "", 100, 110, 115, "COMPLETED"), workload.ReadOptions{})
	job := w.Jobs.At(0)
	if w.Jobs.Len() != 1 || job.Submit != hpc.Unix(1_700_000_000) || job.RunTime != 5*time.Second || len(job.Recorded.LostRuns) != 2 {
		t.Errorf("%d jobs, %+v, rules %v", w.Jobs.Len(), job, w.Rules)
	}
}

// TestSacctRequeueAfterWindow checks that a job keeps a later run that was submitted after the window.
func TestSacctRequeueAfterWindow(t *testing.T) {
	first, last := sacctLine("1", "a", "", 0, 10, 100, "PREEMPTED"), sacctLine("1", "a", "", 100, 110, 115, "COMPLETED")
	late := sacctLine("2", "b", "", 70, 80, 90, "COMPLETED")
	for _, text := range []string{first + late + last, late + last + first} {
		w := readSacct(t, fewColumns+text, workload.ReadOptions{Start: hpc.Unix(1_700_000_000), End: hpc.Unix(1_700_000_060)})
		job := w.Jobs.At(0)
		if w.Jobs.Len() != 1 || job.RunTime != 5*time.Second || job.ExitCode != 0 || len(job.Recorded.LostRuns) != 1 ||
			w.Rules[finished.NoteOutside] != 1 || w.Rows.Lost() != 0 {
			t.Errorf("%s: %d jobs, %+v, rules %v", text, w.Jobs.Len(), job, w.Rules)
		}
	}
}

func TestSacctSteps(t *testing.T) {
	w := readSacct(t, fewColumns+
		sacctLine("1", "a", "", 0, -1, 60, "COMPLETED")+
		sacctLine("1.0", "step", "", 30, 30, 60, "COMPLETED")+
		sacctLine("1.batch", "batch", "", 12, 12, 60, "COMPLETED"), workload.ReadOptions{})
	if job := w.Jobs.At(0); job.Recorded.Start != hpc.Unix(1_700_000_012) || job.RunTime != 48*time.Second || w.Rules[finished.RuleNoStart] != 1 {
		t.Errorf("%+v %+v, rules %v", job, job.Recorded, w.Rules)
	}
}

// TestSacctWindow cuts a window as in Fig. 2 of Martinasso et al. (SC'18).
func TestSacctWindow(t *testing.T) {
	opts := workload.ReadOptions{Start: hpc.Unix(1_700_000_100), End: hpc.Unix(1_700_000_200)}
	w := readSacct(t, fewColumns+
		sacctLine("1", "over", "", 0, 10, 100, "COMPLETED")+
		sacctLine("2", "preset", "", 10, 20, 150, "COMPLETED")+
		sacctLine("3", "pending", "", 20, 120, 300, "COMPLETED")+
		sacctLine("4", "never", "", 30, -1, 110, "CANCELLED by 5")+
		sacctLine("7_1", "preset task", "", 30, 60, 110, "COMPLETED")+
		sacctLine("7_2", "task", "", 30, 130, 160, "COMPLETED")+
		sacctLine("7_3", "task", "", 30, 130, 160, "COMPLETED")+
		sacctLine("5", "inside", "", 150, -1, -1, "PENDING")+
		sacctLine("6", "late", "", 200, 210, 220, "COMPLETED"), opts)
	want := []string{"2 preset", "3 pending", "4 never", "7_1 preset task", "7 task", "5 inside"}
	if diff := cmp.Diff(want, jobNames(w)); diff != "" {
		t.Errorf("jobs (-want +got)\n%s", diff)
	}
	var presets []string
	for _, job := range w.Jobs.All() {
		if w.Preset(job) {
			presets = append(presets, job.ID)
		}
	}
	if diff := cmp.Diff([]string{"2", "7_1"}, presets); diff != "" || w.Start != opts.Start {
		t.Errorf("presets (-want +got)\n%s, start %s", diff, w.Start)
	}
	if w.Rules[finished.NoteOutside] != 2 || w.Jobs.At(4).Array != "2-3" {
		t.Errorf("rules %v, array %s", w.Rules, w.Jobs.At(4).Array)
	}
}

// TestSacctPartitions checks that a job of several partitions waits for all of them. A job that
// ran when the window began keeps the partition in which it ran.
func TestSacctPartitions(t *testing.T) {
	const columns = "JobID|Submit|Start|End|State|ReqCPUS|Timelimit|Partition|NodeList|SubmitLine\n"
	at := func(minute int) string {
		return hpc.Unix(1_700_000_000 + 60*int64(minute)).Std().Format("2006-01-02T15:04:05")
	}
	line := func(id string, start int) string {
		return strings.Join([]string{id, at(0), at(start), at(90), "COMPLETED", "1", "24:00:00", "batch", "n1", "sbatch -p batch,debug job.sh"}, "|") + "\n"
	}
	w := readSacct(t, columns+line("1", 10)+line("2", 70), workload.ReadOptions{Start: hpc.Unix(1_700_000_000 + 60*60)})
	for id, want := range map[string]string{"1": "batch", "2": "batch,debug"} {
		if got := jobByID(t, w, id).Partition; got != want {
			t.Errorf("job %s is submitted to %s, want %s", id, got, want)
		}
	}
}

func TestSacctTimes(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skipf("SKIPPED: time zones: %v", err)
	}
	const want = 1709276400 // 2024-03-01T07:00:00Z
	for _, text := range []string{
		"2024-03-01T08:00:00", "2024-03-01 08:00:00", "1709276400", "2024-03-01T07:00:00Z", "2024-03-01T09:00:00+02:00",
		"2024-03-01T09:00:00+0200", "2024-03-01T08:00",
	} {
		w := readSacct(t, fewColumns+"1|a||"+text+"|Unknown|Unknown|PENDING|1\n", workload.ReadOptions{Zone: berlin})
		if got := w.Jobs.Submit(0); got != hpc.Unix(want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestSacctDelimiters reads a dump with each delimiter that sites give to sacct --delimiter.
func TestSacctDelimiters(t *testing.T) {
	const dump = "JobID|JobName|ReqTRES|Submit|Start|End|State|ReqCPUS\n" +
		"1|a;b,c|cpu=4,mem=8G,node=1|2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T09:00:00|COMPLETED|4\n"
	for _, delimiter := range []string{"|", "\t", ";", "^", "@", "!", "~", "\x01"} {
		w := readSacct(t, strings.ReplaceAll(dump, "|", delimiter), workload.ReadOptions{})
		job := w.Jobs.At(0)
		if w.Jobs.Len() != 1 || job.Name != "a;b,c" || job.Tasks != 4 || job.MemPerNode != 8192 || job.RunTime != time.Hour {
			t.Errorf("delimiter %q: %d jobs, %+v, rules %v", delimiter, w.Jobs.Len(), job, w.Rules)
		}
	}
}

// TestSacctElapsed reads a dump without the column End.
func TestSacctElapsed(t *testing.T) {
	const submitted = "2024-03-01T08:00:00|"
	w := readSacct(t, "JobID|Submit|Start|Elapsed|Suspended|State|ReqCPUS\n"+
		"1|"+submitted+"2024-03-01T08:00:10|01:00:00|00:10:00|COMPLETED|4\n"+
		"2|"+submitted+"2024-03-01T08:00:10|00:05:00||RUNNING|4\n"+
		"3|"+submitted+"Unknown|00:00:00||PENDING|4\n"+
		"4|"+submitted+"2024-03-01T08:00:10|1-12:00||COMPLETED|4\n", workload.ReadOptions{})
	if job := w.Jobs.At(3); job.RunTime != 36*time.Hour {
		t.Errorf("run time %v of 1 day and 12 hours", job.RunTime)
	}
	if job := w.Jobs.At(0); job.RunTime != time.Hour || job.Recorded.End.Sub(job.Recorded.Start) != 70*time.Minute {
		t.Errorf("job 1: %+v, %+v", job, job.Recorded)
	}
	if w.Jobs.At(1).Recorded.End != 0 || w.Jobs.At(2).Recorded.End != 0 || w.Rules[finished.NoteEndFromElapsed] != 2 || len(w.Unusable) > 0 {
		t.Errorf("rules %v, jobs %+v", w.Rules, w.Jobs.List())
	}
}

// TestSacctAllocTRES reads a dump whose only sizes are NNodes and AllocTRES.
func TestSacctAllocTRES(t *testing.T) {
	const columns = "JobID|Submit|Start|End|State|NNodes|AllocTRES\n"
	const times = "2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T09:00:00|COMPLETED|"
	w, missing, err := sacct.Accounting(strings.NewReader(columns+
		"1|"+times+"2|billing=64,cpu=64,gres/gpu:a100=8,gres/gpu=8,mem=512G,node=2\n"+
		"2|"+times+"1|\n"), "x", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := hpc.Request{MinNodes: 2, MaxNodes: 2, Tasks: 64, MemPerNode: 256 << 10, GPUs: "a100:8"}
	if diff := cmp.Diff(want, w.Jobs.At(0).Request); diff != "" || w.Rules[finished.NoteFromAllocation] != 1 {
		t.Errorf("rules %v, request (-want +got)\n%s", w.Rules, diff)
	}
	for _, text := range missing {
		if strings.Contains(text, "GPUs") || strings.Contains(text, "memory") {
			t.Errorf("missing: %s", text)
		}
	}
	w, missing, err = sacct.Accounting(strings.NewReader("JobID|Submit|Start|End|State|NNodes\n1|"+times+"2\n"), "x", workload.ReadOptions{})
	if err != nil || w.Rules[finished.NoteFromAllocation] != 0 || !strings.Contains(strings.Join(missing, "\n"), "GPUs are not known") {
		t.Errorf("error %v, rules %v, missing %q", err, w.Rules, missing)
	}
}

func TestSacctErrors(t *testing.T) {
	several := "Cluster|" + fewColumns
	for i := range 12 {
		several += fmt.Sprintf("c%d|%s", i, sacctLine(fmt.Sprint(i+1), "a", "", 0, 1, 2, "COMPLETED"))
	}
	for text, want := range map[string]string{
		several:                            "jobs of 12 clusters: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 2 more (want --cluster-name with",
		"":                                 "reading sacct: x: empty",
		"JobID|Submit|ReqCPUS\n":           "reading sacct: x:1: no column Start, End (want sacct -P -o ...,Start,End)",
		"JobID,Submit,Start,End,ReqTRES\n": "x:1: commas between the columns, as in reqtres (want the output of sacct -P, or of sacct --delimiter with",
		"       JobID              Submit               Start                 End      ReqCPUS \n------------ -----\n":                              "x:1: columns padded with blanks: sacct was run without -P (want sacct -P)",
		"JobID    Submit   Start    End      ReqCPUS \n":                                                                                            "x:1: columns padded with blanks: sacct was run without -P (want sacct -P)",
		"JobID,Submit,Start,End,State,ReqCPUS\n\"1\",\"2024-01-01T00:00:00\",\"2024-01-01T00:10:00\",\"2024-01-01T01:10:00\",\"COMPLETED\",\"4\"\n": "seconds since 1970); quoted values: a table? (want workload build --from table)",
		"\"JobID\",\"Submit\",\"Start\",\"End\",\"State\",\"ReqCPUS\"\n":                                                                            "x:1: quoted values: a table? (want workload build --from table)",
		"JobIDRaw|State\n":        "no column Submit, Start, End, ReqCPUS",
		fewColumns:                "reading sacct: x: it has no usable job",
		fewColumns + "1|a|b|c|\n": "it has no usable job (record_unreadable 1; the first: ",
		"Cluster|" + fewColumns + "a|" + sacctLine("1", "a", "", 0, 1, 2, "COMPLETED") + "b|" + sacctLine("2", "a", "", 0, 1, 2, "COMPLETED"): "x: jobs of 2 clusters: a, b (want --cluster-name",
	} {
		if _, _, err := sacct.Accounting(strings.NewReader(text), "x", workload.ReadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

// TestDelimiters reads the same two jobs with all kinds of delimiters, with and without a header.
func TestDelimiters(t *testing.T) {
	header := []string{"JobID", "User", "JobName", "State", "Submit", "Start", "End", "Elapsed", "ReqCPUS"}
	records := [][]string{
		{"7", "ann", "a b", "COMPLETED", "2024-03-01T08:00:00", "2024-03-01T08:01:00", "2024-03-01T08:03:00", "00:02:00", "4"},
		{"8", "bob", "c", "FAILED", "2024-03-01T08:00:01", "2024-03-01T08:02:00", "Unknown", "00:00:30", "2"},
	}
	for _, delimiter := range []string{"|", "\t", ";", ",", "::", "~|~", "^"} {
		var text strings.Builder
		for _, record := range records {
			text.WriteString(strings.Join(record, delimiter) + "\n")
		}
		whole := strings.Join(header, delimiter) + "\n" + text.String()
		if f, found := formats.Detect([]byte(whole)); !found || f.Name != "sacct" {
			t.Errorf("%q: recognized as %q", delimiter, f.Name)
		}
		sources := map[string]finished.NewReader{whole: sacct.NewReader()}
		if len(delimiter) == 1 {
			sources[text.String()] = sacct.NewReader(header...)
		}
		for text, reader := range sources {
			w, err := reader.Read(strings.NewReader(text), "x", workload.ReadOptions{})
			if err != nil || w.Jobs.Len() != 2 {
				t.Errorf("%q: %v", text, err)
				continue
			}
			a, b := w.Jobs.At(0), w.Jobs.At(1)
			if a.Name != "a b" || a.User != "ann" || a.RunTime != 2*time.Minute || a.Tasks != 4 || b.RunTime != 30*time.Second || w.Rules[finished.NoteEndFromElapsed] != 1 {
				t.Errorf("%q: %+v %+v %v", text, a, b, w.Rules)
			}
		}
	}
}

// TestSeveralFiles reads a log that was rotated, with a header in each file.
func TestSeveralFiles(t *testing.T) {
	r := sacct.NewReader()("log", workload.ReadOptions{})
	for _, text := range []string{
		fewColumns + sacctLine("1", "a", "", 0, 10, 20, "COMPLETED"),
		fewColumns + sacctLine("2", "b", "", 5, 10, 20, "COMPLETED"),
		"JobID;Submit;Start;End;ReqCPUS\n3;2024-03-01T08:00:00;2024-03-01T08:01:00;2024-03-01T08:03:00;1\n",
		oldJSON,
	} {
		if err := r.Read(strings.NewReader(text), "x"); err != nil {
			t.Fatal(err)
		}
	}
	w, _, err := r.Finish()
	if err != nil || w.Jobs.Len() < 4 {
		t.Errorf("%+v, %v", w, err)
	}
	if err := r.Read(strings.NewReader("JobID|x\n"), "day2"); err == nil || !strings.Contains(err.Error(), "reading sacct: day2:1: no column Submit") {
		t.Errorf("error %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(fewColumns + sacctLine("1", "a|b", "x\ny", 0, 10, 20, "COMPLETED") + sacctLine("1_[2-3%4]", "", "", 0, -1, -1, "PENDING"))
	f.Add(sacctHeader + "11|b|ann|501|phys|51|phys|batch|normal|2024-03-01T08:00:10|2024-03-01T09:01:00|2024-03-01T09:01:00|2024-03-01T09:02:00|00:01:00|FAILED|3:0|4|4|1|2800Mc|cpu=4,gres/gpu:a=2|UNLIMITED|n1|None|sbatch -n 4 -d afterok:10\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, _, err := sacct.Accounting(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		if w.Rows.Lost() != 0 {
			t.Errorf("rows %+v, rules %v", w.Rows, w.Rules)
		}
		for _, job := range w.Jobs.All() {
			if job.Submit <= 0 || job.ID == "" || job.RunTime < 0 || job.CancelAfter < 0 || workload.CPUs(&job.Request) < 1 {
				t.Errorf("job %+v", job)
			}
		}
	})
}

// TestCutArrays checks that a list of tasks that sacct cut off is not taken for a step, and that
// its tasks come from the command line. A step without a job is counted.
func TestCutArrays(t *testing.T) {
	const header = "JobID|User|Submit|Start|End|State|ReqCPUS|SubmitLine\n"
	const times = "|ann|2024-03-01T08:00:00|None|2024-03-01T09:00:00|CANCELLED by 7|1|"
	w := readSacct(t, header+
		"7|ann|2024-03-01T08:00:00|2024-03-01T08:10:00|2024-03-01T09:00:00|COMPLETED|1|sbatch j.sh\n"+
		"7.batch|ann|2024-03-01T08:10:00|2024-03-01T08:10:00|2024-03-01T09:00:00|COMPLETED|1|\n"+
		"8_[1,4,7,10,1...%2]"+times+"sbatch --array=1-19:3%2 j.sh\n"+
		"9_[1,4,7,10,1...%2]"+times+"\n"+
		"5.0|ann|2024-03-01T08:10:00|2024-03-01T08:10:00|2024-03-01T09:00:00|COMPLETED|1|\n", workload.ReadOptions{})
	if w.Jobs.Len() != 2 || w.Jobs.At(1).Array != "1,4,7,10,13,16,19%2" {
		t.Errorf("%d jobs, the second %+v", w.Jobs.Len(), w.Jobs.At(1))
	}
	rules := map[string]int{finished.NoteArrayList: 1, finished.RuleArrayCut: 1, finished.NoteStep: 1, finished.NoteNeverStarted: 1}
	if diff := cmp.Diff(rules, w.Rules); diff != "" {
		t.Errorf("rules (-want +got)\n%s", diff)
	}
	if want := (workload.Rows{Read: 5, Jobs: 2, Parts: 1, Dropped: 2}); w.Rows != want {
		t.Errorf("rows %+v, want %+v", w.Rows, want)
	}
}

// TestLastColumn checks that lines after a record belong to its last column if this column may hold
// line breaks, and that errors name the record's own line.
func TestLastColumn(t *testing.T) {
	const header = "JobID|JobName|Submit|Start|End|State|ReqCPUS|SubmitLine\n"
	const times = "|2024-03-01T08:00:00|2024-03-01T08:10:00|2024-03-01T09:00:00|COMPLETED|1|"
	text := header + "7|a" + times + "srun bash -c echo hello &&\necho good | wc\n\n17\n" +
		"7.0|step" + times + "srun bash -c echo hello &&\necho goodbye\n" +
		"8|b" + times + "sbatch j.sh\n9|cut\n\n" + "10|c" + times + "\n" + header + "11|d" + times + "sbatch j.sh &&\nx"
	var lines []string
	w := readSacct(t, text, workload.ReadOptions{})
	_, _, err := sacct.Accounting(strings.NewReader(text), "x", workload.ReadOptions{Record: func(record any) error {
		lines = append(lines, record.(*finished.Job).SubmitLine)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"srun bash -c echo hello &&\necho good | wc\n\n17", "sbatch j.sh", "", "sbatch j.sh &&\nx"}, lines); diff != "" {
		t.Errorf("command lines (-want +got)\n%s", diff)
	}
	if want := (workload.Rows{Read: 6, Jobs: 4, Parts: 1, Dropped: 1}); w.Rows != want || len(w.Unusable) != 1 || w.Unusable[0].Text != "9|cut\n" {
		t.Errorf("rows %+v, unusable %+v", w.Rows, w.Unusable)
	}
	for _, more := range []string{"", "8|b" + times + "z\n"} {
		text := strings.Replace(header+"6|a"+times+"x\ny\n7|a"+times+"x\ny\n"+more, "7|a|2024-03-01T08:00:00", "7|a|2024-03-00T08:00:00", 1)
		_, _, err := sacct.Accounting(strings.NewReader(text), "x.sacct", workload.ReadOptions{Strict: true})
		if err == nil || !strings.HasPrefix(err.Error(), "reading sacct: x.sacct:4: job 7: Submit ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTimeFormat checks the error for times in a format of the user's own: it names
// SLURM_TIME_FORMAT.
func TestTimeFormat(t *testing.T) {
	_, err := sacct.Read(strings.NewReader("JobID|User|Submit|Start|End|State|ReqCPUS\n1|a|18 May 08:00|18 May 08:10|18 May 09:00|COMPLETED|4\n"), "x", workload.ReadOptions{})
	if err == nil || !strings.Contains(err.Error(), `job 1: Submit "18 May 08:00": not a time`) || !strings.Contains(err.Error(), "SLURM_TIME_FORMAT was set (want it unset)") {
		t.Errorf("error %v", err)
	}
}

// TestCutLineBehindName checks that a record that was cut off does not become a part of the name in
// the line before it.
func TestCutLineBehindName(t *testing.T) {
	const header = "User|JobID|Submit|Start|End|State|ReqCPUS|JobName\n"
	const times = "|2024-03-01T08:00:00|2024-03-01T08:10:00|2024-03-01T09:00:00|COMPLETED|1|"
	w := readSacct(t, header+"ann|7"+times+"a\nb\nann|8|2024-03-01T08:00:00|2024", workload.ReadOptions{})
	if w.Jobs.Len() != 1 || w.Jobs.At(0).Name != "a\nb" || w.Rules[finished.RuleNoRecord] != 1 || w.Rows.Lost() != 0 {
		t.Errorf("%d jobs, name %q, rules %v", w.Jobs.Len(), w.Jobs.At(0).Name, w.Rules)
	}
}

// TestUnreadableLines: each line that is not a record counts, and the first mistake names its file and line.
func TestUnreadableLines(t *testing.T) {
	const head = "JobID|JobName|Submit|Start|End|State|ReqCPUS\n"
	const good = "1|a|2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T09:00:00|COMPLETED|4\n"
	for text, want := range map[string]struct {
		unreadable, jobs int
		first            string
	}{
		head + good + "2|b|2024-03-01T08:00:00\n3|c|2024-03-01T08:00:00\n": {2, 1, "x:3: fewer fields than the header's 7"},
		head + good + "2|b|2024-03-01\n3|c|2024\n" +
			strings.Replace(good, "1", "4", 1): {2, 2, "x:3: fewer fields than the header's 7"},
		head + "sacct: error: one\nsacct: error: two\n" + good: {2, 1, "x:2: fewer fields than the header's 7"},
		head + good + "2|b\nc|d\n":                             {1, 1, "x:3: fewer fields than the header's 7"},
		head + good + "2|b\n\n3.batch|c\n":                     {2, 1, "x:3: fewer fields than the header's 7"},
		head + good + strings.Repeat("5|", 9) + "\n":           {1, 1, "x:3: 10 fields, where the header has 7"},
		head + good + strings.Replace(strings.Replace(good, "1", "6", 1), "2024-03-01T08", "never", 1): {1, 1,
			`x:3: job 6: Submit "never:00:00": `},
	} {
		w, _, err := sacct.Accounting(strings.NewReader(text), "x", workload.ReadOptions{})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if n := w.Rules[finished.RuleNoRecord]; n != want.unreadable || len(w.Unusable) != n || w.Jobs.Len() != want.jobs ||
			!strings.HasPrefix(w.Mistake, want.first) {
			t.Errorf("%q: rules %v, %d jobs, unusable %v, mistake %s", text, w.Rules, w.Jobs.Len(), w.Unusable, w.Mistake)
		}
		if w.Rows.Lost() != 0 {
			t.Errorf("%q: rows %+v", text, w.Rows)
		}
	}
}

// TestContradictions: Elapsed, the end and the state are checked with each other, with the time at which the file was
// written, and with Slurm's states.
func TestContradictions(t *testing.T) {
	const head, plain = "JobID|Submit|Start|Elapsed|ReqCPUS|End|State|ExitCode", "\n1|2024-03-01T08:00:00|2024-03-01T08:00:00|01:00:00|4|"
	const late, unknown = "2099-01-01T00:00:00", "2024-03-01T09:00:00|WHATEVER|"
	nine := hpc.Unix(1709283600)
	for _, tt := range []struct {
		text   string
		record map[string]int // by rule
		end    hpc.Time
		state  hpc.State
	}{
		{head + plain + "2024-03-01T09:00:00|COMPLETED|0:0", nil, nine, hpc.Completed},
		{head + plain + late + "|COMPLETED|0:0", map[string]int{"bad_value": 1, "end_from_elapsed": 1}, nine, hpc.Completed},
		{head + "|Suspended" + plain + late + "|COMPLETED|0:0|00:00:00", map[string]int{"bad_value": 1, "end_from_elapsed": 1}, nine,
			hpc.Completed},
		{strings.Replace(head, "Elapsed", "Eligible", 1) + strings.Replace(plain, "01:00:00", "", 1) + late + "|COMPLETED|0:0",
			map[string]int{"bad_value": 1, "still_running": 1}, 0, hpc.Completed},
		{head + plain + "2024-03-01T10:00:00|COMPLETED|0:0", map[string]int{"suspension_not_known": 1}, nine.Add(time.Hour), hpc.Completed},
		{head + "|Suspended" + plain + "2024-03-01T10:00:00|COMPLETED|0:0|00:00:00", map[string]int{"elapsed_too_short": 1},
			nine.Add(time.Hour), hpc.Completed},
		{head + "|Suspended" + plain + "2024-03-01T10:00:00|COMPLETED|0:0|01:00:00", nil, nine.Add(time.Hour), hpc.Completed},
		{head + plain + unknown + "0:0", map[string]int{"unknown_state": 1}, nine, hpc.Completed},
		{head + plain + unknown + "3:0", map[string]int{"unknown_state": 1}, nine, hpc.Failed},
		{head + plain + "2024-03-01T09:00:00|OUT_OF_ME+|0:9", nil, nine, hpc.OutOfMemory},
	} {
		w, _, err := sacct.Accounting(strings.NewReader(tt.text+"\n"), "x", workload.ReadOptions{Latest: time.Unix(1717000000, 0)})
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		maps.DeleteFunc(w.Rules, func(rule string, _ int) bool { return rule == finished.NoteExitsForOther })
		if len(w.Rules) != len(tt.record) || len(tt.record) > 0 && !maps.Equal(w.Rules, tt.record) {
			t.Errorf("%s: rules %v, want %v", tt.text, w.Rules, tt.record)
		}
		if r := w.Jobs.At(0).Recorded; r.End != tt.end || r.State != tt.state {
			t.Errorf("%s: end %s, %s", tt.text, r.End, r.State)
		}
	}
	// A workload of the future, whose times agree.
	text := head + strings.NewReplacer("2024", "2098", "01:00:00", "02:00:00").Replace(plain) + "2098-03-01T10:00:00|COMPLETED|0:0\n"
	w, _, err := sacct.Accounting(strings.NewReader(text), "x", workload.ReadOptions{Latest: time.Unix(1717000000, 0)})
	if err != nil || len(w.Rules) > 0 {
		t.Errorf("a future workload: %v, %v", w, err)
	}
}

// TestBlanksAround: blanks around the values of typed columns do not count, nor around a name if the IDs have them.
func TestBlanksAround(t *testing.T) {
	const header = "JobID|JobName|Submit|Start|End|State|ReqCPUS|NodeList\n"
	for text, name := range map[string]string{
		header + " 7 | a b | 2024-01-01T00:00:00 | 2024-01-01T00:10:00 | 2024-01-01T01:10:00 | COMPLETED | 4 | n1 \n": "a b",
		header + " 7 | a|b | 2024-01-01T00:00:00 | 2024-01-01T00:10:00 | 2024-01-01T01:10:00 | COMPLETED | 4 | n1 \n": "a|b",
		header + "7| a b |2024-01-01T00:00:00| 2024-01-01T00:10:00|2024-01-01T01:10:00 |COMPLETED|4|n1\n":             " a b ",
		header + " 7 |\ta | 2024-01-01T00:00:00 | 2024-01-01T00:10:00 | 2024-01-01T01:10:00 | COMPLETED | 4 | n1 \n":  "a",
	} {
		w, _, err := sacct.Accounting(strings.NewReader(text), "x", workload.ReadOptions{})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		job := jobByID(t, w, "7")
		if len(w.Rules) != 0 || job.Name != name || job.RunTime != time.Hour || job.Recorded.Nodes != "n1" {
			t.Errorf("%q: %+v, rules %v; want the name %q", text, job, w.Rules, name)
		}
	}
}
