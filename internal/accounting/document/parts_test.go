package document

import (
	"fmt"
	"testing"
	"time"
)

// TestParts checks that tasks and components without their own numbers are distinguished from each
// other and from jobs with such numbers. A task always has the same identity.
func TestParts(t *testing.T) {
	const times = `"@submit":"2024-05-14T20:00:00","@start":"2024-05-15T01:10:00","@end":"2024-05-15T02:10:00","state":"COMPLETED","nodes":"n1"`
	const waited = `"@submit":"2024-05-14T20:00:00","@end":"2024-05-15T02:10:00","state":"CANCELLED"`
	seen := make(map[string]string)
	for _, more := range []string{times, waited} {
		for _, keys := range []string{
			`"jobid":3`, `"array_job_id":3,"array_task_id":0`, `"array_job_id":3,"array_task_id":1`, `"array_job_id":3,"array_task_id":4000000`,
			`"jobid":123,"het_job_id":123,"het_job_offset":0`, `"het_job_id":123,"het_job_offset":1`,
		} {
			text := "{" + keys + "," + more + "}"
			j := Parse([]byte(text), "vale")
			if j.JobID != 3 && j.JobID != 123 || j.Marks != NoCluster {
				t.Errorf("%s: job %d, marks %q", text, j.JobID, j.Marks.Names())
			}
			identity := fmt.Sprint(j.JobID, " ", j.Run)
			if other := seen[identity]; other != "" {
				t.Errorf("%s: the same as %s", text, other)
			}
			seen[identity] = text
			if again := Parse([]byte(text), "vale"); again.Run != j.Run {
				t.Errorf("%s: runs %d and %d", text, j.Run, again.Run)
			}
		}
	}
}

// TestWithoutNodes: a job whose document lacks the key "nodes" ran, and a job whose document says
// that it had no nodes did not run.
func TestWithoutNodes(t *testing.T) {
	const job = `{"jobid":20,"cluster":"vale","state":"COMPLETED","@submit":"2024-05-18T08:00:00","@start":"2024-05-18T08:01:00","@end":"2024-05-18T08:11:00","total_cpus":4`
	start := time.Date(2024, 5, 18, 8, 1, 0, 0, time.UTC)
	for text, ran := range map[string]bool{job + "}": true, job + `,"nodes":"(null)"}`: false, job + `,"nodes":""}`: false, job + `,"nodes":"n1"}`: true} {
		j := Parse([]byte(text), "")
		if j.Ran() != ran || ran && (!j.Start.Equal(start) || j.Elapsed != KnownInt(600) || j.CPUHours != Hours{4.0 / 6, true}) {
			t.Errorf("%s: %+v", text, j)
		}
	}
	cancelled := `{"jobid":20,"state":"CANCELLED","@submit":"2024-05-18T08:00:00","@start":"2024-05-18T08:11:00","@end":"2024-05-18T08:11:00"}`
	if j := Parse([]byte(cancelled), ""); j.Ran() || !j.Start.IsZero() {
		t.Errorf("%s: %+v", cancelled, j)
	}
}
