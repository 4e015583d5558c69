package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/waits/waitstest"
)

// preempted is a line of slurmctld.log that says which job had to end for which.
var preempted = regexp.MustCompile(`\[([0-9T:.-]+)\] preempted JobId=\S+ .*to reclaim resources for JobId=\S+`)

// TestPreemptionDay replays the example's jobs of four hours with preemption by QOS and by partition, on
// three releases: every preemption in slurmctld.log is in the record with its instant and the job that
// preempted, explain names both, and all commands say the same of the waits, whose parts add up to them.
func TestPreemptionDay(t *testing.T) {
	needSlurm(t)
	scratch := t.TempDir()
	command := func(args ...string) string {
		out, err := exec.Command(program(t), args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return string(out)
	}
	day, site := filepath.Join(scratch, "day.jsonl"), filepath.Join(scratch, "site")
	command("workload", "generate", "example", "--seed", "1", "-o", site)
	command("workload", "transform", filepath.Join(site, "day.jsonl"), "--start", "2024-03-05T08:00", "--end", "2024-03-05T12:00", "-o", day)
	for _, release := range []string{"", "24.11", "26.05"} {
		for _, kind := range [][2]string{{"qos", "REQUEUE"}, {"partition_prio", "CANCEL"}, {"qos", "SUSPEND,GANG"}} {
			t.Run(strings.Join([]string{release, kind[0], kind[1]}, " "), func(t *testing.T) {
				args := []string{"replay", day, "--cluster", preempting(t, site, kind[0], kind[1]), "-o", filepath.Join(t.TempDir(), "run"), "-q"}
				if release != "" {
					root := filepath.Join(os.Getenv(rootsVariable), release)
					if _, err := os.Lstat(root); os.Getenv(rootsVariable) == "" || err != nil {
						t.Skipf("SKIPPED: no replay on Slurm %s: %s has no root of it", release, rootsVariable)
					}
					args = append(args, "--slurm", root)
				}
				command(args...)
				checkPreemptions(t, args[5], kind, command)
			})
		}
	}
}

// preempting copies the example's cluster with preemption: QOS high preempts the others, or the partition
// debug.
func preempting(t *testing.T, site, by, mode string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(site, "cluster"))); err != nil {
		t.Fatal(err)
	}
	for file, change := range map[string][2]string{
		"slurm.conf":        {"PreemptType=preempt/none\nPreemptMode=OFF", "PreemptType=preempt/" + by + "\nPreemptMode=" + mode},
		"accounts.sacctmgr": {"add cluster ", "modify qos where name=high set preempt=normal,long\nadd cluster "},
	} {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), change[0]) {
			t.Fatalf("%s: %v: no %q", file, err, change[0])
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// checkPreemptions compares a record with slurmctld's log, and with what explain says.
func checkPreemptions(t *testing.T, dir string, kind [2]string, command func(args ...string) string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, "logs", "slurmctld.log"))
	if err != nil {
		t.Fatal(err)
	}
	var logged, recorded []string
	for _, line := range preempted.FindAllStringSubmatch(string(log), -1) {
		at, err := time.Parse("2006-01-02T15:04:05.999", line[1])
		if err != nil {
			t.Fatal(err)
		}
		logged = append(logged, at.Format(time.DateTime))
	}
	_, rows := openRows(t, dir)
	stopped := 0
	for i := range rows {
		for _, s := range rows[i].Segments {
			if s.EndedBy == rm.Suspend {
				stopped++
			}
			if s.PreemptedBy == "" {
				continue
			}
			recorded = append(recorded, s.End.Std().UTC().Format(time.DateTime))
			checkLost(t, dir, &rows[i], s, command)
		}
	}
	slices.Sort(logged)
	slices.Sort(recorded)
	switch suspends := strings.HasPrefix(kind[1], "SUSPEND"); {
	case suspends && (len(recorded) > 0 || len(logged) > 0 || stopped == 0):
		t.Errorf("%d suspensions, and runs were lost: %q and %q", stopped, recorded, logged)
	case suspends:
	case !slices.Equal(recorded, logged) || len(logged) == 0 && kind[0] == "qos": // releases differ in the others
		t.Errorf("the record has preemptions at %q, slurmctld.log at %q", recorded, logged)
	}
	t.Logf("%d preemptions in slurmctld.log and in the record, %d suspensions", len(logged), stopped)
	waitstest.Check(t, dir)
}

// story is what explain --json says of a job, as far as the tests look at it.
type story struct {
	Lost []struct {
		End         time.Time `json:"end"`
		PreemptedBy string    `json:"preempted_by"`
	} `json:"lost_runs"`
}

func explained(t *testing.T, dir string, row *run.Row, command func(args ...string) string) (s story) {
	t.Helper()
	name := row.Job
	if row.Task >= 0 {
		name = fmt.Sprintf("%s_%d", row.Job, row.Task)
	}
	if err := json.Unmarshal([]byte(command("explain", dir, name, "--json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// checkLost checks that explain names the preemptor and the instant of a lost run.
func checkLost(t *testing.T, dir string, row *run.Row, lost run.Segment, command func(args ...string) string) {
	t.Helper()
	s := explained(t, dir, row, command)
	for _, l := range s.Lost {
		if l.PreemptedBy == lost.PreemptedBy && l.End.Unix() == lost.End.Std().Unix() {
			return
		}
	}
	t.Errorf("job %s was preempted by %s at %s; explain says %+v", row.Job, lost.PreemptedBy, lost.End, s.Lost)
}
