package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/explain"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits/waitstest"
)

// preempted matches a line of slurmctld.log about a preemption: its time, the preempted and the
// preempting job. A task of an array is "7_27(74)". The number in parentheses is the task's job ID,
// or the array's if the task has no job ID of its own yet.
var preempted = regexp.MustCompile(`\[([0-9T:.-]+)\] preempted JobId=(?:\d+_(\d+)\()?(\d+)\)? .*to reclaim resources for JobId=(?:\d+_(\d+)\()?(\d+)`)

// With fewer preemptions in a replay than enough, or fewer suspensions for jobs that started than
// enoughSuspensions, the test would show little.
const enough, enoughSuspensions = 10, 5

// TestPreemptionDay replays small jobs of the example's morning on eight nodes with preemption by
// QOS and by partition, on three releases. Every preemption in slurmctld.log is in the record with
// its instant and the preempting job, and explain names both. For a suspended job, explain says
// when it was suspended and which job started then. All commands give the same waits, and the parts
// of a wait add up to it. With RMREPLAY_LONG_TESTS the test replays all jobs of the day on all
// nodes, with each mode by QOS and by partition.
func TestPreemptionDay(t *testing.T) {
	needSlurm(t)
	scratch := t.TempDir()
	day, site, nodes := filepath.Join(scratch, "day.jsonl"), filepath.Join(scratch, "site"), 8
	kinds := [][2]string{{"qos", "REQUEUE"}, {"partition_prio", "CANCEL"}, {"qos", "SUSPEND,GANG"}}
	rmreplay(t, "workload", "generate", "example", "--seed", "1", "-o", site)
	if os.Getenv("RMREPLAY_LONG_TESTS") == "" {
		morning(t, site, day)
	} else {
		day, nodes = filepath.Join(site, "day.jsonl"), 36
		kinds = append(kinds, [][2]string{{"partition_prio", "REQUEUE"}, {"qos", "CANCEL"}, {"partition_prio", "SUSPEND,GANG"}}...)
	}
	makeUrgent(t, day)
	for _, release := range []string{"", "24.11", "26.05"} {
		for _, kind := range kinds {
			t.Run(strings.Join([]string{release, kind[0], kind[1]}, " "), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "run")
				args := []string{"replay", day, "--cluster", preempting(t, site, kind[0], kind[1], nodes), "-o", dir, "-q"}
				if release != "" {
					root := filepath.Join(os.Getenv(rootsVariable), release)
					if _, err := os.Lstat(root); os.Getenv(rootsVariable) == "" || err != nil {
						t.Skipf("SKIPPED: no replay on Slurm %s: %s has no root of it", release, rootsVariable)
					}
					args = append(args, "--slurm", root)
				}
				rmreplay(t, args...)
				if strings.HasPrefix(kind[1], "SUSPEND") {
					checkSuspensions(t, dir)
				} else {
					checkPreemptions(t, dir)
				}
				waitstest.Check(t, dir)
			})
		}
	}
}

// morning writes the example's small jobs of three hours of the morning to the file day.
func morning(t *testing.T, site, day string) {
	t.Helper()
	rmreplay(t, "workload", "transform", filepath.Join(site, "day.jsonl"), "--start", "2024-03-05T08:00", "--end", "2024-03-05T11:00",
		"--filter", `partition != "gpu" and qos != "long" and nodes <= 4 and time_limit_s <= 4 * 3600`, "-o", day)
}

// TestInterruptedPreemptions interrupts a replay after some preemptions. Up to that instant, the
// record has the lost runs of an undisturbed replay and the priorities of running jobs. So do the
// files that were on disk before the interruption, which a killed replay would leave.
func TestInterruptedPreemptions(t *testing.T) {
	needSlurm(t)
	scratch := t.TempDir()
	day, site := filepath.Join(scratch, "day.jsonl"), filepath.Join(scratch, "site")
	rmreplay(t, "workload", "generate", "example", "--seed", "1", "-o", site)
	morning(t, site, day)
	makeUrgent(t, day)
	cluster := preempting(t, site, "qos", "REQUEUE", 8)
	records := map[string]string{"whole": "", "interrupted": "", "killed": ""}
	for name := range records {
		records[name] = filepath.Join(scratch, name)
	}
	lost := func(rows []run.Row) (n int) {
		for _, row := range rows {
			n += row.Restarts
		}
		return n
	}
	cmd := exec.Command(program(t), "replay", day, "--cluster", cluster, "-o", records["interrupted"], "-q")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // an interrupted replay exits with an error
		close(ended)
	}()
	for seen := 0; seen < 4; {
		select {
		case <-ended:
			t.Fatal("the replay ended before it was interrupted")
		case <-time.After(50 * time.Millisecond):
		}
		if r, err := run.Open(records["interrupted"]); err == nil && r.Live {
			if rows, err := r.Jobs(); err == nil {
				seen = lost(rows)
			}
		}
	}
	for _, name := range []string{"manifest.json", "journal.jsonl"} {
		text, err := os.ReadFile(filepath.Join(records["interrupted"], name))
		if err == nil {
			err = os.MkdirAll(records["killed"], 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(records["killed"], name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-ended
	rmreplay(t, "replay", day, "--cluster", cluster, "-o", records["whole"], "-q")
	rows := map[string]map[string]run.Row{}
	for name, dir := range records {
		r, err := run.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.Jobs()
		if err != nil || lost(list) < 4 {
			t.Fatalf("%s: %d lost runs, %v", name, lost(list), err)
		}
		rows[name] = map[string]run.Row{}
		for _, row := range list {
			rows[name][fmt.Sprint(row.Job, row.Task)] = row
		}
	}
	running := 0
	for _, name := range []string{"interrupted", "killed"} {
		for id, row := range rows[name] {
			whole := rows["whole"][id]
			for i, s := range row.Segments {
				if s.EndedBy == rm.Requeue && (i >= len(whole.Segments) || s.PreemptedBy == "" || !cmp.Equal(s, whole.Segments[i])) {
					t.Errorf("%s: job %s, run %d: %+v, want one of %+v", name, id, i, s, whole.Segments)
				}
			}
			if name == "interrupted" && row.State == hpc.Running && row.Start.UnixSeconds() == whole.Start.UnixSeconds() {
				if running++; row.Priority == 0 || row.Priority != whole.Priority {
					t.Errorf("job %s has run with priority %d, want %d", id, row.Priority, whole.Priority)
				}
			}
		}
	}
	if running == 0 {
		t.Error("no job ran when the replay was interrupted")
	}
	checkUntilEnd(t, records["interrupted"])
	for name, dir := range records {
		for _, args := range [][]string{
			{"workload", "convert", dir, "-o", filepath.Join(scratch, name+".jsonl")},
			{"accounting", "import", filepath.Join(scratch, "acc"), dir},
		} {
			out, err := exec.Command(program(t), args...).CombinedOutput()
			if err != nil || strings.Count(string(out), dir+" is not valid: ") != 1 && name != "whole" || strings.Contains(string(out), "valid") && name == "whole" {
				t.Errorf("%v: %v: says %s", args, err, out)
			}
		}
	}
}

// happening matches a line of slurmctld.log about the start or the end of a job. A task of an array
// has its own number in parentheses.
var happening = regexp.MustCompile(`(?m)^\[(\S+)\] (?:sched: Allocate|sched/backfill: _start_job: (Started)|_job_complete:|(preempted)) ` +
	`JobId=(?:\d+_\d+\()?(\d+)\)?(?: NodeList.*| in .*|( done)| has been requeued .*)$`)

// checkUntilEnd checks that the record of an interrupted run has exactly the starts and ends of
// slurmctld's log up to the run's virtual end. The log continues after that instant, because
// slurmctld gets time to send its records to slurmdbd. For jobs that were cancelled or reached
// their limits it checks only the starts.
func checkUntilEnd(t *testing.T, dir string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, "logs", "slurmctld.log"))
	if err != nil {
		t.Fatal(err)
	}
	r, rows := openRows(t, dir)
	var logged, instant, recorded []string // instant: events in the millisecond of the interruption, which may be missing
	after := 0
	for _, line := range happening.FindAllStringSubmatch(string(log), -1) {
		at, err := hpc.ParseTime(line[1])
		if err != nil {
			t.Fatal(err)
		}
		what := "start"
		if line[3] != "" || line[5] != "" {
			what = "end"
		}
		text := fmt.Sprintf("%s %s %d", line[4], what, at.UnixSeconds())
		switch {
		case at > r.Manifest.VirtualEnd:
			after++
		case at.Add(time.Millisecond) > r.Manifest.VirtualEnd: // the log has whole milliseconds
			instant = append(instant, text)
		default:
			logged = append(logged, text)
		}
	}
	for i := range rows {
		for _, s := range rows[i].Held() {
			recorded = append(recorded, fmt.Sprintf("%d start %d", rows[i].RMJob, s.Start.UnixSeconds()))
			limited := s.EndedBy == rm.Ended && rows[i].State != hpc.Completed && rows[i].State != hpc.Failed // other words in the log
			if s.End != 0 && !limited {
				recorded = append(recorded, fmt.Sprintf("%d end %d", rows[i].RMJob, s.End.UnixSeconds()))
			}
		}
	}
	slices.Sort(logged)
	slices.Sort(recorded)
	recorded = slices.DeleteFunc(recorded, func(text string) bool { return slices.Contains(instant, text) })
	if diff := cmp.Diff(logged, recorded); diff != "" {
		t.Errorf("starts and ends in slurmctld.log (-) and in the record (+) until %s\n%s", r.Manifest.VirtualEnd, diff)
	}
	t.Logf("%d starts and ends until %s; the log has %d later", len(logged), r.Manifest.VirtualEnd, after)
}

// rmreplay runs the program and returns what it prints.
func rmreplay(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, &said)
	}
	return string(out)
}

// makeUrgent changes the small jobs in partition batch and QOS normal. A third of them gets the
// QOS high. The short jobs among the others move to partition debug.
func makeUrgent(t *testing.T, trace string) {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	lines, seen := bytes.Split(bytes.TrimSpace(text), []byte("\n")), 0
	for i, line := range lines {
		var entry map[string]any
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatal(err)
		}
		nodes, _ := entry["min_nodes"].(float64)
		if entry["partition"] != "batch" || entry["qos"] != "normal" || nodes > 4 { // limits of debug and high
			continue
		}
		if seen++; seen%3 == 0 {
			entry["qos"] = "high"
		} else if limit, ok := entry["time_limit_s"].(float64); ok && limit <= 1800 {
			entry["partition"] = "debug"
		}
		if lines[i], err = json.Marshal(entry); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(trace, append(bytes.Join(lines, []byte("\n")), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// preempting copies the example's cluster, with the given number of nodes for batch and debug, and
// with preemption. Either QOS high preempts all other QOS, or partition debug preempts all other
// partitions.
func preempting(t *testing.T, site, by, mode string, nodes int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(site, "cluster"))); err != nil {
		t.Fatal(err)
	}
	for file, change := range map[string][2]string{
		"slurm.conf":        {"PreemptType=preempt/none\nPreemptMode=OFF", "PreemptType=preempt/" + by + "\nPreemptMode=" + mode},
		"nodes.conf":        {" Nodes=c[01-36]", fmt.Sprintf(" Nodes=c[01-%02d]", nodes)},
		"accounts.sacctmgr": {"add cluster ", "modify qos where name=high set preempt=normal,long\nadd cluster "},
	} {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), change[0]) {
			t.Fatalf("%s: %v: no %q", file, err, change[0])
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), change[0], change[1])), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// nameOf returns the name of a job as explain prints it.
func nameOf(row *run.Row) string {
	if row.Task >= 0 {
		return fmt.Sprintf("%s_%d", row.Job, row.Task)
	}
	return row.Job
}

// checkPreemptions compares a record with slurmctld's log, line by line, and with what explain prints.
func checkPreemptions(t *testing.T, dir string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, "logs", "slurmctld.log"))
	if err != nil {
		t.Fatal(err)
	}
	_, rows := openRows(t, dir)
	numbered := map[string]*run.Row{}
	for i := range rows {
		numbered[strconv.FormatUint(uint64(rows[i].RMJob), 10)] = &rows[i]
	}
	named := func(task, number string) string {
		row := numbered[number]
		switch {
		case row == nil:
			return number
		case task != "":
			return row.Job + "_" + task
		}
		return nameOf(row)
	}
	var logged, recorded, explained []string
	for _, line := range preempted.FindAllStringSubmatch(string(log), -1) {
		at, _, _ := strings.Cut(line[1], ".")
		victim, preemptor := named(line[2], line[3]), named(line[4], line[5])
		if _, text := storyOf(t, dir, preemptor); !strings.Contains(text, "job "+victim+" of ") || strings.Contains(text, "its resources were free") {
			t.Errorf("%s was preempted for %s; explain of that says\n%s", victim, preemptor, text)
		}
		logged = append(logged, fmt.Sprintf("%s until %sZ for %s", victim, at, preemptor))
	}
	for i := range rows {
		name, before := nameOf(&rows[i]), len(recorded)
		for _, s := range rows[i].Segments {
			if s.PreemptedBy != "" {
				recorded = append(recorded, fmt.Sprintf("%s until %s for %s", name, s.End.Std().UTC().Format(time.RFC3339), s.PreemptedBy))
			}
		}
		if before == len(recorded) {
			continue
		}
		_, text := storyOf(t, dir, name)
		for _, line := range storyLine.FindAllStringSubmatch(text, -1) {
			explained = append(explained, fmt.Sprintf("%s until %s for %s", name, line[1], line[2]))
		}
	}
	for _, list := range [][]string{logged, recorded, explained} {
		slices.Sort(list)
	}
	if diff := cmp.Diff(logged, recorded); diff != "" {
		t.Errorf("preemptions in slurmctld.log (-) and in the record (+)\n%s", diff)
	}
	if diff := cmp.Diff(logged, explained); diff != "" {
		t.Errorf("preemptions in slurmctld.log (-) and in explain (+)\n%s", diff)
	}
	if lines := strings.Count(string(log), "reclaim resources for JobId="); len(logged) < enough || lines != len(logged) {
		t.Errorf("%d preemptions in %d lines of slurmctld.log, want %d at least", len(logged), lines, enough)
	}
	t.Logf("%d preemptions in slurmctld.log, in the record and in explain", len(logged))
	checkLostRuns(t, dir, rows)
}

// checkLostRuns checks that preempted runs have the start and the end that sacct prints, and that a
// requeued job's list of reasons begins again.
func checkLostRuns(t *testing.T, dir string, rows []run.Row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "logs", "sacct.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, "|"); f[12] == "PREEMPTED" {
			want = append(want, f[1]+" "+f[10]+"Z "+f[11]+"Z")
		}
	}
	for i := range rows {
		again := false
		for _, r := range rows[i].Runs() {
			if r.PreemptedBy != "" {
				got = append(got, fmt.Sprint(rows[i].RMJob, " ", r.Start, " ", r.End))
			}
			again = again || r.EndedBy == rm.Requeue
		}
		if !again {
			continue
		}
		story, _ := storyOf(t, dir, nameOf(&rows[i]))
		for _, lost := range story.Lost {
			for _, span := range story.Reasons {
				if span.From == lost.End && lost.EligibleAgain > lost.End && (span.Reason != "BeginTime" || span.Planned != 0) {
					t.Errorf("%s was requeued; then explain has %+v", story.Job, span)
				}
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < enough {
		t.Errorf("preempted runs in sacct (-) and in the record (+)\n%s", diff)
	}
}

// storyLine matches explain's line about a lost run.
var storyLine = regexp.MustCompile(`(?m)^lost run +\S+ to (\S+) on \d+ processors?, preempted by job ([^\s,]+)(?:, eligible again \S+)?$`)

// storyOf returns explain's story of a job, and its text.
func storyOf(t *testing.T, dir, name string) (*explain.Story, string) {
	t.Helper()
	r, err := formats.OpenRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	record, err := explain.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	story, err := record.Job(name)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := story.Render(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	return story, b.String()
}

// checkSuspensions checks that explain has each suspension of the record. If another job started
// at a suspension, explain names that job. It sums up the other suspensions, which are time slices
// of gang scheduling. The test uses only the record, because slurmctld does not log suspensions.
// No run may be lost.
func checkSuspensions(t *testing.T, dir string) {
	t.Helper()
	_, rows := openRows(t, dir)
	stops, named := 0, 0
	for i := range rows {
		var recorded, explained []string
		for _, s := range rows[i].Segments {
			if s.PreemptedBy != "" {
				t.Errorf("%s lost a run to %s", nameOf(&rows[i]), s.PreemptedBy)
			}
			if s.EndedBy == rm.Suspend {
				recorded = append(recorded, s.End.Std().UTC().Format(time.RFC3339))
			}
		}
		if len(recorded) == 0 {
			continue
		}
		story, text := storyOf(t, dir, nameOf(&rows[i]))
		slices := 0
		for _, stop := range story.Stops {
			from := stop.From.Text(time.UTC)
			explained = append(explained, from)
			if len(stop.Started) == 0 {
				slices++
				continue
			}
			named++
			if _, other := storyOf(t, dir, stop.Started[0]); !strings.Contains(other, "job "+nameOf(&rows[i])+" of "+rows[i].User+" was suspended at "+from) {
				t.Errorf("%s started when %s was suspended at %s; explain says\n%s", stop.Started[0], nameOf(&rows[i]), from, other)
			}
			line := regexp.MustCompile(`(?m)^suspended +` + from + ` to \S+: ` + strings.Join(stop.Started, ", ") + ` started on its nodes$`)
			if !line.MatchString(text) {
				t.Errorf("%s was suspended at %s for %v; explain says\n%s", nameOf(&rows[i]), from, stop.Started, text)
			}
		}
		if diff := cmp.Diff(recorded, explained); diff != "" {
			t.Errorf("suspensions of %s in the record (-) and in explain (+)\n%s", nameOf(&rows[i]), diff)
		}
		if sum := regexp.MustCompile(fmt.Sprintf(`(?m)^suspended +%d times?, `, slices)); slices > 0 && !sum.MatchString(text) {
			t.Errorf("%s was suspended by %d time slices; explain says\n%s", nameOf(&rows[i]), slices, text)
		}
		stops += len(recorded)
	}
	if named < enoughSuspensions {
		t.Errorf("%d suspensions for jobs that started, want %d at least", named, enoughSuspensions)
	}
	t.Logf("%d suspensions in the record and in explain, %d of them for jobs that started", stops, named)
}
