package sacct_test

import (
	"strings"
	"testing"

	"rmreplay/internal/finished"
	"rmreplay/internal/formats"
	"rmreplay/internal/formats/sacct"
	"rmreplay/internal/realdata"
	"rmreplay/internal/workload"
)

const usedColumns = "JobID|User|Submit|Start|End|AllocCPUS|State|NTasks|AveRSS|TRESUsageInTot|TRESUsageOutTot\n"

// TestUsage reads the memory and I/O of steps. The memory of a job is its largest step's, divided
// by its processors; the bytes of all steps are added.
func TestUsage(t *testing.T) {
	w := readSacct(t, usedColumns+
		`1|ann|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T08:11:00|4|COMPLETED||||
1.batch||2024-03-01T08:01:00|2024-03-01T08:01:00|2024-03-01T08:02:00|4|COMPLETED|1|100K|cpu=00:00:01,fs/disk=1000,mem=100K,pages=3|energy=0,fs/disk=24
1.0||2024-03-01T08:02:00|2024-03-01T08:02:00|2024-03-01T08:11:00|4|COMPLETED|4|2M|fs/disk=1M,mem=8M|fs/disk=0
2|ann|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T08:11:00|2|COMPLETED||||
2.0||2024-03-01T08:01:00|2024-03-01T08:01:00|2024-03-01T08:11:00|2|COMPLETED|3|1024K||
3_1|ann|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T08:11:00|1|COMPLETED||||
3_1.0||2024-03-01T08:01:00|2024-03-01T08:01:00|2024-03-01T08:11:00|1|COMPLETED|1||mem=5K|
3_2|ann|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T08:11:00|1|COMPLETED||||
4|ann|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T08:11:00|1|COMPLETED||||
4.0||2024-03-01T08:01:00|2024-03-01T08:01:00|2024-03-01T08:11:00|1|COMPLETED|1||mem=much,fs/disk=9|
4.1||2024-03-01T08:01:00|2024-03-01T08:01:00|2024-03-01T08:11:00|1|COMPLETED|1||mem=99999999999999999P|fs/disk=99999999999999999P
`, workload.ReadOptions{})
	for id, want := range map[string][2]int64{"1": {2048, 1<<20 + 1024}, "2": {1536, 0}, "4": {1 << 50, 1 << 60}} {
		r := jobByID(t, w, id).Recorded
		if got := [2]int64{r.UsedMemory, r.MovedBytes}; got != want {
			t.Errorf("job %s: %v KiB for each processor and bytes, want %v", id, got, want)
		}
	}
	array := jobByID(t, w, "3").Recorded
	if one, two := array.OfTask(1), array.OfTask(2); one.UsedMemory != 5 || two.UsedMemory != 0 {
		t.Errorf("the tasks use %d and %d KiB, want 5 and 0", one.UsedMemory, two.UsedMemory)
	}
	if w.Rules[finished.RuleBadValue] != 1 {
		t.Errorf("rules: %v, want one bad value", w.Rules)
	}
	strict := "1|ann|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T08:11:00|4|COMPLETED||||\n1.0||||||COMPLETED|1||mem=x|\n"
	if _, _, err := sacct.Accounting(strings.NewReader(usedColumns+strict), "x", workload.ReadOptions{Strict: true}); err == nil || !strings.Contains(err.Error(), `TRESUsageInTot "mem=x"`) {
		t.Errorf("strict: %v", err)
	}
}

// TestUsageJSON does the same for sacct --json, whose values may have any type.
func TestUsageJSON(t *testing.T) {
	job := func(id, steps string) string {
		return `{"job_id":` + id + `,"name":"n","user":"ann","state":{"current":"COMPLETED"},"tres":{"allocated":[{"type":"cpu","name":"","count":2}]},
 "time":{"submission":1709280000,"start":1709280060,"end":1709280120,"elapsed":60},"steps":` + steps + `}`
	}
	w := readSacct(t, `{"meta":{},"jobs":[`+strings.Join([]string{
		job("1", `[{"tres":{"requested":{"total":[{"type":"mem","name":"","count":4194304},{"type":"fs","name":"disk","count":1000}]},"consumed":{"total":[{"type":"fs","name":"disk","count":24}]}}},
 {"tres":{"requested":{"total":[{"type":"mem","name":"","count":2048}]},"consumed":{"total":[]}}}]`),
		job("2", `[{"tres":{"requested":{"total":"none"},"consumed":{}}}]`),
		job("3", `[{"tres":{"requested":{"total":[{"type":"mem","name":"","count":-5}]}}}]`),
	}, ",")+`]}`, workload.ReadOptions{})
	for id, want := range map[string][2]int64{"1": {2048, 1024}, "2": {0, 0}, "3": {0, 0}} {
		r := jobByID(t, w, id).Recorded
		if got := [2]int64{r.UsedMemory, r.MovedBytes}; got != want {
			t.Errorf("job %s: %v KiB for each processor and bytes, want %v", id, got, want)
		}
	}
}

// TestRealUsage reads the step of a real dump: 141309400 KiB on 40 processors.
func TestRealUsage(t *testing.T) {
	w, err := formats.Open(realdata.Path(t, "slurm", "sacct", "sacct_dump2101.log"))
	if err != nil {
		t.Fatal(err)
	}
	r := jobByID(t, w, "4822203").Recorded
	if want := (141309400 + int64(r.Processors) - 1) / int64(r.Processors); r.UsedMemory != want || r.MovedBytes != 2656291+13473+2012 {
		t.Errorf("%d processors use %d KiB each and move %d bytes, want %d and %d", r.Processors, r.UsedMemory, r.MovedBytes, want, 2656291+13473+2012)
	}
}
