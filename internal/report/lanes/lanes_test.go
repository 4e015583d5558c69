package lanes

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

type job struct {
	part  Part
	share float64
}

// drawn returns how many lanes of a row the jobs cover.
func drawn(jobs []job) (lanes int) {
	var covered [count]bool
	for _, j := range jobs {
		low, high := j.part.Share()
		for i := int(low * count); i < int(high*count); i++ {
			covered[i] = true
		}
	}
	for _, is := range covered {
		if is {
			lanes++
		}
	}
	return lanes
}

// A node that small jobs fill has a full row, and a half full node a half full row, whatever the number of its
// processors.
func TestFullRow(t *testing.T) {
	for processors := 2; processors <= 512; processors++ {
		var row Row
		var jobs []job
		share := 1 / float64(processors)
		for n := 1; n <= processors; n++ {
			jobs = append(jobs, job{row.Start(share), share})
			want := count * float64(n) / float64(processors)
			if got := drawn(jobs); math.Abs(float64(got)-want) > 2 && processors <= count || n == processors && got < count-2 {
				t.Fatalf("%d of %d processors are held: %d lanes are drawn, want %.1f", n, processors, got, want)
			}
		}
		for i, j := range jobs {
			row.End(j.part, j.share)
			if i == len(jobs)-1 && row.held > 1e-9 {
				t.Errorf("%d processors: %v are held at the end", processors, row.held)
			}
		}
		for i, load := range row.loads {
			if load > little || load < -little {
				t.Fatalf("%d processors: lane %d has the load %v without jobs", processors, i, load)
			}
		}
	}
}

// The lanes of a job are in the row. They are free as long as the jobs on the row are larger than a lane.
func TestStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		processors := rapid.IntRange(1, 200).Draw(t, "processors")
		var row Row
		var jobs []job
		free := processors
		for range rapid.IntRange(1, 300).Draw(t, "events") {
			if free == 0 || len(jobs) > 0 && rapid.Bool().Draw(t, "end") {
				i := rapid.IntRange(0, len(jobs)-1).Draw(t, "which")
				row.End(jobs[i].part, jobs[i].share)
				free += int(math.Round(jobs[i].share * float64(processors)))
				jobs = append(jobs[:i], jobs[i+1:]...)
				continue
			}
			n := rapid.IntRange(1, free).Draw(t, "size")
			free -= n
			share := float64(n) / float64(processors)
			before := drawn(jobs)
			p := row.Start(share)
			jobs = append(jobs, job{p, share})
			if p != (Part{}) && (p.Count == 0 || int(p.First)+int(p.Count) > count) {
				t.Fatalf("%+v is not in the row", p)
			}
			if before < count && count*share >= 1 && drawn(jobs) == before {
				t.Fatalf("%+v hides other jobs in a row with %d of %d lanes", p, before, count)
			}
		}
	})
}
